#include "backend/cuda/check.h"

#include "base/check.h"

namespace epilogue::cuda {
namespace {

// "cudaMalloc(&data, bytes)" as "cudaMalloc".
std::string_view function_of(std::string_view call) { return call.substr(0, call.find('(')); }

}  // namespace

void fail_cuda(std::string_view call, cudaError_t error) {
  cudaGetLastError();  // an error that does not stick must not be met again by the next call
  fail("{}: {}, {}", function_of(call), cudaGetErrorName(error), cudaGetErrorString(error));
}

void fail_cublas(std::string_view call, cublasStatus_t status) {
  fail("{}: {}", function_of(call), cublasLtGetStatusString(status));
}

}  // namespace epilogue::cuda
