// The two loops that every pointwise op, copy and fill runs in. F::apply<Out>(a, b) makes one element; F may
// carry a value. Loops are over a StridedLoop's minimal dimensions.
//
// elementwise_rows: rows whose elements lie side by side, 16 bytes a thread and access. What a contiguous
// tensor is (one row), and what the halves of a stacked gate-and-up tensor are (many).
// elementwise_strided: everything else, an element at a time.
#pragma once

#include <algorithm>
#include <cstdint>

#include <cuda_runtime.h>

#include "backend/cuda/device.h"
#include "backend/cuda/kernels/element.cuh"
#include "backend/strided_loop.h"

namespace epilogue::cuda {

inline constexpr int kThreads = 256;

// On Hopper and later a kernel may begin while its predecessor's last blocks still run: it lets its own
// successor come as early, and waits itself before it touches memory. That hides the gap between kernels.
__device__ inline void begin_after_predecessor() {
#if __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
  cudaGridDependencySynchronize();
#endif
}

template <class... Parameters, class... Arguments>
cudaError_t launch_overlapping(void (*kernel)(Parameters...), int64_t blocks, LaunchOn on,
                               const Arguments&... arguments) {
  return cudaLaunchKernelEx(LaunchConfig(blocks, kThreads, on).get(), kernel, arguments...);
}

template <class T, int kWidth>
struct alignas(sizeof(T) * kWidth) Vector {
  T element[kWidth];
};

struct RowsArguments {
  char* out;
  const char* in[2];
  int64_t out_row, in_row[2];  // bytes from row to row
  int64_t vectors;             // in all rows, below 2^32
  uint32_t row_vectors;        // 0: one row
  int64_t elements;            // in all rows; beyond the vectors' there is a tail
};

// A vector a thread: two or four keep more loads under way, but were slower, by 2 to 4% at 8192x3072 and by a
// quarter where there are few blocks.
template <class F, class Out, class In, int kInputs, int kWidth>
__global__ void __launch_bounds__(kThreads) elementwise_rows(const F f, const RowsArguments arguments) {
  using InVector = Vector<In, kWidth>;
  using OutVector = Vector<Out, kWidth>;
  begin_after_predecessor();
  const uint32_t at = blockIdx.x * uint32_t{kThreads} + threadIdx.x;
  if (at < arguments.vectors) {
    const uint32_t row = arguments.row_vectors == 0 ? 0 : at / arguments.row_vectors;
    const uint32_t column = at - row * arguments.row_vectors;
    InVector in[kInputs > 0 ? kInputs : 1];
#pragma unroll
    for (int i = 0; i < kInputs; ++i)
      in[i] = reinterpret_cast<const InVector*>(arguments.in[i] + row * arguments.in_row[i])[column];
    OutVector out;
#pragma unroll
    for (int e = 0; e < kWidth; ++e)
      out.element[e] = f.template apply<Out>(in[0].element[e], in[kInputs > 1 ? 1 : 0].element[e]);
    reinterpret_cast<OutVector*>(arguments.out + row * arguments.out_row)[column] = out;
  }
  const int64_t tail = arguments.vectors * kWidth + threadIdx.x;
  if (blockIdx.x == 0 && tail < arguments.elements) {
    In a[2] = {};
    for (int i = 0; i < kInputs; ++i) a[i] = reinterpret_cast<const In*>(arguments.in[i])[tail];
    reinterpret_cast<Out*>(arguments.out)[tail] = f.template apply<Out>(a[0], a[1]);
  }
}

struct StridedArguments {
  char* out;
  const char* in[2];
  int dims;
  int64_t elements;
  int64_t sizes[kMaxDims];
  int64_t out_strides[kMaxDims], in_strides[2][kMaxDims];  // bytes
};

template <class Index, class F, class Out, class In, int kInputs>
__device__ void strided_element(const F& f, const StridedArguments& arguments, Index rest) {
  int64_t out = 0, in[2] = {};
  for (int d = 0; d < arguments.dims; ++d) {
    const auto size = static_cast<Index>(arguments.sizes[d]);
    const Index at = rest % size;
    rest /= size;
    out += at * arguments.out_strides[d];
    for (int i = 0; i < kInputs; ++i) in[i] += at * arguments.in_strides[i][d];
  }
  In a[2] = {};
  for (int i = 0; i < kInputs; ++i) a[i] = *reinterpret_cast<const In*>(arguments.in[i] + in[i]);
  *reinterpret_cast<Out*>(arguments.out + out) = f.template apply<Out>(a[0], a[1]);
}

template <class F, class Out, class In, int kInputs>
__global__ void __launch_bounds__(kThreads) elementwise_strided(const F f, const StridedArguments arguments) {
  begin_after_predecessor();
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < arguments.elements; i += step)
    if (arguments.elements <= INT64_C(0xffffffff))
      strided_element<uint32_t, F, Out, In, kInputs>(f, arguments, static_cast<uint32_t>(i));
    else
      strided_element<uint64_t, F, Out, In, kInputs>(f, arguments, static_cast<uint64_t>(i));
}

// Whether every operand's rows lie side by side and start on a vector's boundary.
inline bool is_rows_of_vectors(const StridedLoop& loop, int width) {
  if (loop.dims > 2 || (loop.dims == 2 && loop.sizes[0] % width != 0)) return false;
  if (loop.numel() / width > INT64_C(0xffffffff)) return false;
  for (int o = 0; o < loop.operands; ++o) {
    const LoopOperand& operand = loop.operand[o];
    const int64_t bytes = operand.element_size * width;
    if (operand.strides[0] != operand.element_size && loop.dims > 0) return false;
    if (reinterpret_cast<uintptr_t>(operand.data) % bytes != 0) return false;
    if (loop.dims == 2 && operand.strides[1] % bytes != 0) return false;
  }
  return true;
}

template <class F, class Out, class In, int kInputs>
cudaError_t launch_elementwise(const F& f, const StridedLoop& loop, LaunchOn on) {
  constexpr int kWidth = 16 / static_cast<int>(std::max(sizeof(Out), kInputs > 0 ? sizeof(In) : sizeof(Out)));
  const int64_t elements = loop.numel();
  if (is_rows_of_vectors(loop, kWidth)) {
    RowsArguments arguments{.out = loop.operand[0].data, .elements = elements};
    for (int i = 0; i < kInputs; ++i) arguments.in[i] = loop.operand[1 + i].data;
    arguments.vectors = elements / kWidth;
    if (loop.dims == 2) {
      arguments.row_vectors = static_cast<uint32_t>(loop.sizes[0] / kWidth);
      arguments.out_row = loop.operand[0].strides[1];
      for (int i = 0; i < kInputs; ++i) arguments.in_row[i] = loop.operand[1 + i].strides[1];
    }
    const int64_t blocks = (arguments.vectors + kThreads - 1) / kThreads;
    return launch_overlapping(elementwise_rows<F, Out, In, kInputs, kWidth>, std::max<int64_t>(blocks, 1), on,
                              f, arguments);
  }
  StridedArguments arguments{.out = loop.operand[0].data, .dims = loop.dims, .elements = elements};
  for (int i = 0; i < kInputs; ++i) arguments.in[i] = loop.operand[1 + i].data;
  for (int d = 0; d < loop.dims; ++d) {
    arguments.sizes[d] = loop.sizes[d];
    arguments.out_strides[d] = loop.operand[0].strides[d];
    for (int i = 0; i < kInputs; ++i) arguments.in_strides[i][d] = loop.operand[1 + i].strides[d];
  }
  const int64_t blocks = std::min<int64_t>((elements + kThreads - 1) / kThreads, 1 << 16);
  return launch_overlapping(elementwise_strided<F, Out, In, kInputs>, blocks, on, f, arguments);
}

}  // namespace epilogue::cuda
