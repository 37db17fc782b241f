// The product as it is written in books: any dtype, any strides, any bias. For problems that cuBLASLt does
// not take, and for what is compared with f64.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "epilogue/tensor.h"

namespace epilogue::cuda {

struct ReferenceOperand {
  const void* data = nullptr;
  int64_t batch = 0, row = 0, column = 0;  // strides in elements
};

// c = a b + bias, c contiguous; accumulated in f32, f64 for f64.
struct ReferenceGemm {
  int64_t m = 0, n = 0, k = 0, batch = 1;
  ReferenceOperand a, b, bias;
  void* c = nullptr;
};

cudaError_t launch_gemm_reference(const ReferenceGemm& gemm, DType dtype, cudaStream_t stream);

}  // namespace epilogue::cuda
