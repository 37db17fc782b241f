#include "backend/cuda/kernels/element.cuh"
#include "backend/cuda/kernels/gemm_reference.h"

namespace epilogue::cuda {
namespace {

template <class T>
__global__ void gemm_reference(ReferenceGemm gemm) {
  using Sum = typename Element<T>::Wide;
  const int64_t total = gemm.batch * gemm.m * gemm.n;
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < total;
       i += int64_t{gridDim.x} * blockDim.x) {
    const int64_t column = i % gemm.n, row = i / gemm.n % gemm.m, batch = i / (gemm.n * gemm.m);
    const T* a = static_cast<const T*>(gemm.a.data) + batch * gemm.a.batch + row * gemm.a.row;
    const T* b = static_cast<const T*>(gemm.b.data) + batch * gemm.b.batch + column * gemm.b.column;
    Sum sum = 0;
    for (int64_t k = 0; k < gemm.k; ++k) sum += widen(a[k * gemm.a.column]) * widen(b[k * gemm.b.row]);
    if (gemm.bias.data)
      sum += widen(static_cast<const T*>(gemm.bias.data)[row * gemm.bias.row + column * gemm.bias.column]);
    static_cast<T*>(gemm.c)[i] = narrow<T>(sum);
  }
}

template <class T>
cudaError_t launch(const ReferenceGemm& gemm, cudaStream_t stream) {
  const int64_t blocks = (gemm.batch * gemm.m * gemm.n + 255) / 256;
  gemm_reference<T><<<static_cast<unsigned>(blocks < 65536 ? blocks : 65536), 256, 0, stream>>>(gemm);
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_gemm_reference(const ReferenceGemm& gemm, DType dtype, cudaStream_t stream) {
  switch (dtype) {
    case DType::bf16:
      return launch<__nv_bfloat16>(gemm, stream);
    case DType::f16:
      return launch<__half>(gemm, stream);
    case DType::f64:
      return launch<double>(gemm, stream);
    default:
      return launch<float>(gemm, stream);
  }
}

}  // namespace epilogue::cuda
