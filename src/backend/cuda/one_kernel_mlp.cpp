#include "backend/cuda/one_kernel_mlp.h"

#include <algorithm>

#include "backend/cuda/own_gemm.h"

namespace epilogue::cuda {
namespace {

bool fits(const MlpGemmProblem& problem, const MlpGemmConfig& config) {
  const MlpGemmRoom room = room_of(problem, config);
  return config.parts * 64 <= problem.gated.n && room.counter_bytes <= kCounterBytes &&
         room.sum_bytes <= kWorkspaceBytes;
}

bool waits_freely(const CudaDevice& device) {
  const Capture* recording = device.capture();
  if (!recording) return device.may_wait_freely(device.stream());
  return recording->one_call && device.may_wait_freely(recording->replayed_on);
}

}  // namespace

// With fewer rows the waits for the hidden tensor are longer than what lies between two kernels.
const char* refuse_one_kernel(const CudaDevice& device, const MlpGemmProblem& problem) {
  constexpr int64_t fewest_rows = 512;
  if (problem.gated.m < fewest_rows) return "the rows are few";
  if (bytes_of_rows(problem.gated.m, problem.gated.n) > kMostHiddenBytesOfOneKernel)
    return "the hidden tensor is large";
  if (const char* reason = refuse_own(device, problem.gated)) return reason;
  if (const char* reason = refuse_mlp_gemm(problem)) return reason;
  const auto all = mlp_gemm_configs();
  return std::any_of(all.begin(), all.end(), [&](const auto& config) { return fits(problem, config); })
             ? nullptr
             : "the workspace has too little room";
}

std::vector<MlpGemmConfig> one_kernel_candidates(const MlpGemmProblem& problem) {
  std::vector<MlpGemmConfig> all;
  for (const MlpGemmConfig& config : mlp_gemm_configs())
    if (fits(problem, config)) all.push_back(config);
  return all;
}

cudaError_t launch_one_kernel(CudaDevice& device, MlpGemmProblem problem, const MlpGemmConfig& config) {
  problem.gated.overlap = overlap_of(device, problem.gated);
  const Counters counters = device.counters();
  const MlpGemmLaunch launch{counters.get(), device.workspace().data, !waits_freely(device)};
  const cudaError_t error = launch_mlp_gemm(problem, config, launch, device.stream());
  if (error == cudaSuccess)
    device.let_next_begin(problem.out, bytes_of_rows(problem.gated.m, problem.out_stride));
  return error;
}

}  // namespace epilogue::cuda
