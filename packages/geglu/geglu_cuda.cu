// act(gate) * up on CUDA: the built-in kernel's own source, 16 bytes an access where alignment allows it and an element at
// a time where it does not, for any size.
#include <stdio.h>

#include "backend/cuda/kernels/elementwise.cuh"
#include "backend/cuda/kernels/pointwise_functors.cuh"
#include "epilogue/kernel_abi.h"

namespace {

using namespace epilogue;
using namespace epilogue::cuda;

template <class F, class E>
int32_t run(const EpCall* call) {
  StridedLoop loop;
  loop.dims = 1;
  loop.operands = 3;
  loop.sizes[0] = 1;
  for (int32_t d = 0; d < call->outputs[0].ndim; ++d) loop.sizes[0] *= call->outputs[0].shape[d];
  const DLTensor* tensors[] = {&call->outputs[0], &call->inputs[0], &call->inputs[1]};
  for (size_t i = 0; i < 3; ++i) {
    loop.operand[i].data = static_cast<char*>(tensors[i]->data) + tensors[i]->byte_offset;
    loop.operand[i].element_size = sizeof(E);
    loop.operand[i].strides[0] = sizeof(E);
  }
  const cudaError_t error = launch_elementwise<F, E, E, 2>({}, loop, {static_cast<cudaStream_t>(call->stream), /*overlap=*/false});
  if (error == cudaSuccess) return EP_OK;
  snprintf(call->error, call->error_bytes, "%s", cudaGetErrorString(error));
  return EP_FAILED;
}

constexpr DLDataType kF32{kDLFloat, 32, 1}, kBf16{kDLBfloat, 16, 1}, kF16{kDLFloat, 16, 1};
#define GEGLU_KERNELS(op, F)                                               \
  {op, kF32, "epilogue_" op "_f32", nullptr, run<F, float>},               \
      {op, kBf16, "epilogue_" op "_bf16", nullptr, run<F, __nv_bfloat16>}, \
      {op, kF16, "epilogue_" op "_f16", nullptr, run<F, __half>}
const EpKernel kKernels[] = {GEGLU_KERNELS("gelu_tanh_mul", GeluTanhMul), GEGLU_KERNELS("gelu_mul", GeluMul),
                             GEGLU_KERNELS("silu_mul", SiluMul)};
const EpPackage kPackage = {EP_KERNEL_ABI_VERSION, 1, "epilogue/geglu", kKernels, sizeof(kKernels) / sizeof(kKernels[0])};

}  // namespace

extern "C" const EpPackage* ep_kernel_package(uint32_t host_abi_version) {
  return host_abi_version >= EP_KERNEL_ABI_VERSION ? &kPackage : nullptr;
}
