// CUDA calls, checked: EP_CUDA(cudaMemcpyAsync(...)) throws Error with the call and what CUDA says of it.
#pragma once

#include <string_view>

#include <cublasLt.h>
#include <cuda_runtime_api.h>

namespace epilogue::cuda {

[[noreturn]] void fail_cuda(std::string_view call, cudaError_t error);
[[noreturn]] void fail_cublas(std::string_view call, cublasStatus_t status);

inline void check_cuda(std::string_view call, cudaError_t error) {
  if (error != cudaSuccess) [[unlikely]]
    fail_cuda(call, error);
}
inline void check_cuda(std::string_view call, cublasStatus_t status) {
  if (status != CUBLAS_STATUS_SUCCESS) [[unlikely]]
    fail_cublas(call, status);
}

}  // namespace epilogue::cuda

#define EP_CUDA(...) ::epilogue::cuda::check_cuda(#__VA_ARGS__, (__VA_ARGS__))
