// A pointwise program as CUDA C++ for NVRTC: no headers, the formulas of the eager kernels, 16-byte accesses
// where the operands allow them.
#pragma once

#include <cstdint>
#include <string>

#include "backend/program_loop.h"
#include "op/program.h"

namespace epilogue::codegen {

// The whole translation unit: three kernels, named as the next three functions say.
std::string cuda_source(const PointwiseProgram& program);

// For operands whose rows lie side by side: `vector_width` elements an access, takes RowsArguments. Its name
// is the program's.
std::string cuda_rows_kernel(const PointwiseProgram& program);
// The same for inputs some of which have one element for a whole row.
std::string cuda_single_kernel(const PointwiseProgram& program);
// For any strides: an element at a time, takes StridedArguments.
std::string cuda_strided_kernel(const PointwiseProgram& program);

inline constexpr int kCudaThreads = 256;
int cuda_vector_width(const PointwiseProgram& program);  // elements, of the rows kernels

// What the kernels take, as the generated text declares it too. Operands: outputs, then the program's inputs.
struct RowsArguments {
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
