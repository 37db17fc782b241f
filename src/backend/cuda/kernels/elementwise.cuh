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
  if (!on.overlap) {
    kernel<<<static_cast<unsigned>(blocks), kThreads, 0, on.stream>>>(arguments...);
    return cudaGetLastError();
  }
  cudaLaunchAttribute overlap{.id = cudaLaunchAttributeProgrammaticStreamSerialization};
  overlap.val.programmaticStreamSerializationAllowed = 1;
  const cudaLaunchConfig_t config{.gridDim = dim3(static_cast<unsigned>(blocks)),
                                  .blockDim = dim3(kThreads),
                                  .dynamicSmemBytes = 0,
                                  .stream = on.stream,
                                  .attrs = &overlap,
                                  .numAttrs = 1};
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

template <class T, int kWidth>
struct alignas(sizeof(T) * kWidth) Vector {
  T element[kWidth];
};

struct RowsArguments {
  char* out;
  const char* in[2];
  int64_t out_row, in_row[2];  // bytes from row to row
  int64_t vectors;             // in all rows
  uint32_t row_vectors;        // 0: one row
  int64_t elements;            // in all rows; beyond the vectors' there is a tail
};

// kUnroll vectors a thread, a block's width apart: that many loads are under way at once.
template <class F, class Out, class In, int kInputs, int kWidth, int kUnroll>
__global__ void __launch_bounds__(kThreads) elementwise_rows(const F f, const RowsArguments arguments) {
  using InVector = Vector<In, kWidth>;
  using OutVector = Vector<Out, kWidth>;
  begin_after_predecessor();
  const int64_t first = blockIdx.x * int64_t{kThreads * kUnroll} + threadIdx.x;
  InVector in[kUnroll][kInputs > 0 ? kInputs : 1];
  int64_t row[kUnroll], column[kUnroll];
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const int64_t at = first + u * kThreads;
    row[u] = arguments.row_vectors == 0 ? 0
             : at < INT64_C(0xffffffff) ? static_cast<uint32_t>(at) / arguments.row_vectors
                                        : at / arguments.row_vectors;
    column[u] = at - row[u] * arguments.row_vectors;
    if (at < arguments.vectors)
#pragma unroll
      for (int i = 0; i < kInputs; ++i)
        in[u][i] =
            reinterpret_cast<const InVector*>(arguments.in[i] + row[u] * arguments.in_row[i])[column[u]];
  }
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    if (first + u * kThreads >= arguments.vectors) break;
    OutVector out;
#pragma unroll
    for (int e = 0; e < kWidth; ++e)
      out.element[e] = f.template apply<Out>(in[u][0].element[e], in[u][kInputs > 1 ? 1 : 0].element[e]);
    reinterpret_cast<OutVector*>(arguments.out + row[u] * arguments.out_row)[column[u]] = out;
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
  if (loop.dims == 2 && loop.sizes[0] / width > INT64_C(0xffffffff)) return false;
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
  constexpr int kUnroll = kInputs > 1 ? 2 : 4;
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
    const int64_t blocks = (arguments.vectors + kThreads * kUnroll - 1) / (kThreads * kUnroll);
    return launch_overlapping(elementwise_rows<F, Out, In, kInputs, kWidth, kUnroll>,
                              std::max<int64_t>(blocks, 1), on, f, arguments);
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
