// Kernel packages that tests load, one per value of FIXTURE: one that keeps the ABI, and ones that break it.
#include <cstdio>
#include <cstring>

#include "epilogue/kernel_abi.h"

#define FIXTURE_GOOD 0
#define FIXTURE_FUTURE 1     // speaks an ABI newer than the host's
#define FIXTURE_STRANGER 2   // calls itself by another name
#define FIXTURE_UNWILLING 3  // refuses the host
#define FIXTURE_EMPTY 4      // has no kernel that its manifest promises

namespace {

int64_t count_of(const DLTensor& tensor) {
  int64_t count = 1;
  for (int32_t d = 0; d < tensor.ndim; ++d) count *= tensor.shape[d];
  return count;
}

// Wants a workspace, and declines sizes that are no multiple of 8.
int32_t prepare(const EpCall* call, uint64_t* workspace_bytes) {
  if (count_of(call->outputs[0]) % 8 != 0) {
    std::snprintf(call->error, call->error_bytes, "it takes multiples of 8 elements");
    return EP_UNSUPPORTED;
  }
  *workspace_bytes = 4096;
  return EP_OK;
}

// gate * up without an activation, so that tests see which kernel ran; fails where gate begins with 13.
int32_t run(const EpCall* call) {
  const float* gate = static_cast<const float*>(call->inputs[0].data);
  const float* up = static_cast<const float*>(call->inputs[1].data);
  float* out = static_cast<float*>(call->outputs[0].data);
  if (gate[0] == 13.0f || call->workspace_bytes != 4096) {
    std::snprintf(call->error, call->error_bytes, "13 brings\nbad luck");
    return EP_FAILED;
  }
  std::memset(call->workspace, 1, call->workspace_bytes);
  struct Operands {
    const float *gate, *up;
    float* out;
  } on{gate, up, out};
  call->host->parallel_for(
      count_of(call->outputs[0]), 1024,
      [](void* context, int64_t begin, int64_t end) {
        const Operands& o = *static_cast<const Operands*>(context);
        for (int64_t i = begin; i < end; ++i) o.out[i] = o.gate[i] * o.up[i];
      },
      &on);
  return EP_OK;
}

const EpKernel kKernels[] = {{"silu_mul", {kDLFloat, 32, 1}, "fixture_mul", prepare, run}};
const EpPackage kPackage = {FIXTURE == FIXTURE_FUTURE ? 2 : 1, 1,
                            FIXTURE == FIXTURE_STRANGER ? "other/name" : "test/fixture", kKernels,
                            FIXTURE == FIXTURE_EMPTY ? 0 : 1};

}  // namespace

const EpPackage* ep_kernel_package(uint32_t) { return FIXTURE == FIXTURE_UNWILLING ? nullptr : &kPackage; }
