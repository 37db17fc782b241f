// A kernel package of somebody else's: silu(gate) * up for f32, in plain C++ against epilogue/kernel_abi.h
// alone.
#include <cmath>

#include <epilogue/kernel_abi.h>

namespace {

struct Operands {
  const float *gate, *up;
  float* out;
};

float* data_of(const DLTensor& tensor) {
  return reinterpret_cast<float*>(static_cast<char*>(tensor.data) + tensor.byte_offset);
}

// One piece of the work; Epilogue's threads call it.
void run_range(void* context, int64_t begin, int64_t end) {
  const Operands& on = *static_cast<const Operands*>(context);
  for (int64_t i = begin; i < end; ++i) on.out[i] = on.gate[i] / (1.0f + std::exp(-on.gate[i])) * on.up[i];
}

int32_t run(const EpCall* call) {
  int64_t count = 1;
  for (int32_t d = 0; d < call->outputs[0].ndim; ++d) count *= call->outputs[0].shape[d];
  Operands on{data_of(call->inputs[0]), data_of(call->inputs[1]), data_of(call->outputs[0])};
  call->host->parallel_for(count, 4096, run_range, &on);
  return EP_OK;
}

const EpKernel kKernels[] = {{"silu_mul", {kDLFloat, 32, 1}, "example_silu_mul_f32", nullptr, run}};
const EpPackage kPackage = {EP_KERNEL_ABI_VERSION, 1, "example/silu", kKernels, 1};

}  // namespace

const EpPackage* ep_kernel_package(uint32_t host_abi_version) {
  return host_abi_version >= EP_KERNEL_ABI_VERSION ? &kPackage : nullptr;
}
