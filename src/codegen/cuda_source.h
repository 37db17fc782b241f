// A pointwise program as CUDA C++ for NVRTC: no headers, the formulas of the eager kernels, 16-byte accesses
// where the operands allow them.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "backend/program_loop.h"
#include "op/program.h"

namespace epilogue::codegen {

enum class CudaKernel : uint8_t {
  rows,     // for operands whose rows lie side by side: cuda_vector_width() elements an access
  single,   // the same for inputs some of which have one element for a whole row
  strided,  // for any strides: an element at a time
};
inline constexpr std::array kCudaKernels{CudaKernel::rows, CudaKernel::single, CudaKernel::strided};

// "ep_fused_gelu_mul_0", the program's name, for rows; the others have their own after it.
std::string cuda_kernel_name(const PointwiseProgram& program, CudaKernel kernel);

// A translation unit with one of them. NVRTC 13.0 takes 52 to 63 ms for each of gelu(a) * b in bf16 on an
// Emerald Rapids, 25 of them for any text, and 110 for all in one; so they are compiled beside each other.
std::string cuda_source(const PointwiseProgram& program, CudaKernel kernel);
// One with all of them, to be read.
std::string cuda_source(const PointwiseProgram& program);

inline constexpr int kCudaThreads = 256;
int cuda_vector_width(const PointwiseProgram& program);  // elements, of the rows kernels

// What the kernels take, as the generated text declares it too. Operands: outputs, then the program's inputs.
struct RowsArguments {  // rows and single
  char* operand[ProgramLoop::kMostOperands] = {};
  int64_t row[ProgramLoop::kMostOperands] = {};    // bytes from row to row
  int64_t inner[ProgramLoop::kMostOperands] = {};  // bytes from element to element: the element's size, or 0
  int64_t vectors = 0;                             // in all rows, below 2^32
  int64_t elements = 0;                            // of one row alone: beyond its vectors there is a tail
  uint32_t row_vectors = 0;                        // 0: one row
  uint32_t unused = 0;
};
struct StridedArguments {
  char* operand[ProgramLoop::kMostOperands] = {};
  int64_t strides[ProgramLoop::kMostOperands][kMaxDims] = {};  // bytes
  int64_t sizes[kMaxDims] = {};
  int64_t elements = 0;
  int64_t dims = 0;
};

// The arguments of the two rows kernels; false when the operands' strides or addresses are not such.
bool rows_arguments(const PointwiseProgram& program, const ProgramLoop& loop, RowsArguments& arguments);
bool has_single(const PointwiseProgram& program, const RowsArguments& arguments);  // which of the two
StridedArguments strided_arguments(const ProgramLoop& loop);

}  // namespace epilogue::codegen
