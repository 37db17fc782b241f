// Copies that convert and stride, and fills.
#include "backend/cuda/check.h"
#include "backend/cuda/device.h"
#include "backend/cuda/kernels/elementwise.cuh"
#include "backend/cuda/kernels/elementwise.h"

namespace epilogue::cuda {
namespace {

struct Convert {
  template <class Out, class In>
  __device__ Out apply(In a, In) const {
    if constexpr (std::is_same_v<Out, In>)
      return a;
    else
      return narrow<Out>(widen(a));
  }
};

struct Fill {
  double value;
  template <class Out, class In>
  __device__ Out apply(In, In) const {
    return narrow<Out>(value);
  }
};

// Tiles through shared memory, so that both sides are read and written along their rows. The extra column
// keeps a column's elements in different banks.
template <class T>
__global__ void transpose_tiles(T* out, int64_t out_row, const T* in, int64_t in_row, int64_t rows,
                                int64_t columns) {
  constexpr int kTile = 32;
  __shared__ T tile[kTile][kTile + 1];
  const int64_t row0 = blockIdx.y * int64_t{kTile}, column0 = blockIdx.x * int64_t{kTile};
  // out[row][column] = in[column][row]; the tile is read along `in`'s rows.
  for (int i = threadIdx.y; i < kTile; i += blockDim.y)
    if (column0 + i < columns && row0 + threadIdx.x < rows)
      tile[i][threadIdx.x] = in[(column0 + i) * in_row + row0 + threadIdx.x];
  __syncthreads();
  for (int i = threadIdx.y; i < kTile; i += blockDim.y)
    if (row0 + i < rows && column0 + threadIdx.x < columns)
      out[(row0 + i) * out_row + column0 + threadIdx.x] = tile[threadIdx.x][i];
}

bool is_transpose(const StridedLoop& loop) {
  const LoopOperand &out = loop.operand[0], &in = loop.operand[1];
  const int64_t size = out.element_size;
  return loop.dims == 2 && out.strides[0] == size && in.strides[1] == size && in.strides[0] > 0 &&
         in.strides[0] % size == 0 && out.strides[1] % size == 0 && loop.sizes[1] / 32 < 65535;
}

template <class T>
cudaError_t launch_transpose(const StridedLoop& loop, LaunchOn on) {
  const LoopOperand &out = loop.operand[0], &in = loop.operand[1];
  const int64_t size = sizeof(T), columns = loop.sizes[0], rows = loop.sizes[1];
  const dim3 grid(static_cast<unsigned>((columns + 31) / 32), static_cast<unsigned>((rows + 31) / 32));
  transpose_tiles<T><<<grid, dim3(32, 8), 0, on.stream>>>(
      reinterpret_cast<T*>(out.data), out.strides[1] / size, reinterpret_cast<const T*>(in.data),
      in.strides[0] / size, rows, columns);
  return cudaGetLastError();
}

// Elements as they are: only their size counts.
template <class T>
cudaError_t launch_move(const StridedLoop& loop, LaunchOn on) {
  if (is_transpose(loop)) return launch_transpose<T>(loop, on);
  return launch_elementwise<Convert, T, T, 1>({}, loop, on);
}

template <class F, class In, int kInputs>
cudaError_t launch_to(const F& f, DType to, const StridedLoop& loop, LaunchOn on) {
  switch (to) {
    case DType::f32:
      return launch_elementwise<F, float, In, kInputs>(f, loop, on);
    case DType::bf16:
      return launch_elementwise<F, __nv_bfloat16, In, kInputs>(f, loop, on);
    case DType::f16:
      return launch_elementwise<F, __half, In, kInputs>(f, loop, on);
    case DType::f64:
      return launch_elementwise<F, double, In, kInputs>(f, loop, on);
    case DType::i32:
      return launch_elementwise<F, int32_t, In, kInputs>(f, loop, on);
    case DType::i64:
      return launch_elementwise<F, int64_t, In, kInputs>(f, loop, on);
  }
  return cudaErrorInvalidValue;
}

cudaError_t launch_convert(DType from, DType to, const StridedLoop& loop, LaunchOn on) {
  switch (from) {
    case DType::f32:
      return launch_to<Convert, float, 1>({}, to, loop, on);
    case DType::bf16:
      return launch_to<Convert, __nv_bfloat16, 1>({}, to, loop, on);
    case DType::f16:
      return launch_to<Convert, __half, 1>({}, to, loop, on);
    case DType::f64:
      return launch_to<Convert, double, 1>({}, to, loop, on);
    case DType::i32:
      return launch_to<Convert, int32_t, 1>({}, to, loop, on);
    case DType::i64:
      return launch_to<Convert, int64_t, 1>({}, to, loop, on);
  }
  return cudaErrorInvalidValue;
}

}  // namespace

KernelRan run_copy(const KernelCall& call) {
  const std::span<const Tensor> source = call.inputs.last(1);
  const LaunchOn on = device_of(call.output).launch_on();
  const DType from = source[0].dtype(), to = call.output.dtype();
  const StridedLoop loop = StridedLoop::over(call.output, source);
  if (from != to) {
    EP_CUDA(launch_convert(from, to, loop, on));
    return {"convert"};
  }
  const int size = loop.operand[0].element_size;
  const bool one_piece = loop.dims == 0 || (loop.dims == 1 && loop.operand[0].strides[0] == size &&
                                            loop.operand[1].strides[0] == size);
  if (one_piece)
    EP_CUDA(cudaMemcpyAsync(loop.operand[0].data, loop.operand[1].data,
                            static_cast<size_t>(loop.numel() * size), cudaMemcpyDeviceToDevice, on.stream));
  else if (size == 2)
    EP_CUDA(launch_move<uint16_t>(loop, on));
  else if (size == 4)
    EP_CUDA(launch_move<uint32_t>(loop, on));
  else
    EP_CUDA(launch_move<uint64_t>(loop, on));
  return {"copy"};
}

KernelRan run_fill(const KernelCall& call) {
  const StridedLoop loop = StridedLoop::over(call.output, {});
  EP_CUDA(launch_to<Fill, char, 0>({call.attrs.value}, call.output.dtype(), loop,
                                   device_of(call.output).launch_on()));
  return {"fill"};
}

}  // namespace epilogue::cuda
