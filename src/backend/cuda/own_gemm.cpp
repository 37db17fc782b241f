#include "backend/cuda/own_gemm.h"

namespace epilogue::cuda {

const char* refuse_own(const CudaDevice& device, const GatedGemmProblem& problem) {
  if (device.properties().major != 9) return "the kernel is for compute capability 9.0";
  return refuse_gated_gemm(problem);
}

std::vector<GemmConfig> own_candidates(const CudaDevice& device, const GatedGemmProblem& problem) {
  if (refuse_own(device, problem)) return {};
  std::vector<GemmConfig> all{choose_gated_gemm(problem, device.properties().multiProcessorCount)};
  const GemmChoice first = choice_of(all.front());
  for (const GemmConfig& config : gated_gemm_configs())
    if (takes(config, problem) && may_be_best(config, problem) && choice_of(config) != first)
      all.push_back(config);
  return all;
}

size_t bytes_of_rows(int64_t rows, int64_t stride) { return static_cast<size_t>(2 * rows * stride); }

size_t bytes_of_x(const GatedGemmProblem& problem) {
  return bytes_of_rows(problem.m - 1, problem.x_stride) + 2 * static_cast<size_t>(problem.k);
}

namespace {

// The weight may itself be a product: mm(x, mm(a, b).t()).
bool previous_writes_weights(const CudaDevice& device, const GatedGemmProblem& problem) {
  return device.previous_writes(problem.gate, bytes_of_rows(problem.n, problem.gate_stride)) ||
         (problem.up && device.previous_writes(problem.up, bytes_of_rows(problem.n, problem.up_stride)));
}

// See Overlap. Where all of its blocks stand at once there is nothing to crowd.
bool crowds(const CudaDevice& device, const GatedGemmProblem& problem, const GemmConfig& config) {
  constexpr int64_t large = int64_t{64} << 20;
  if (config.kernel != GemmKernel::skinny || config.per_sm == 1) return false;
  const auto ceiling = [](int64_t value, int64_t unit) { return (value + unit - 1) / unit; };
  const int64_t outputs = problem.up ? config.columns / 2 : config.columns;
  const int64_t blocks = ceiling(problem.n, outputs) * ceiling(problem.m, config.rows) * config.split;
  // Clusters are spread one block to a multiprocessor, or crowd (gemm_launch.cuh).
  const int64_t room = (config.split > 1 ? 1 : config.per_sm) * device.properties().multiProcessorCount;
  return 2 * problem.n * problem.k * (problem.up ? 2 : 1) >= large && blocks > room;
}

}  // namespace

Overlap overlap_of(const CudaDevice& device, const GatedGemmProblem& problem) {
  if (!device.launch_on().overlap) return Overlap::none;
  return device.previous_lets_next_begin() && !previous_writes_weights(device, problem) ? Overlap::weights
                                                                                        : Overlap::launch;
}

cudaError_t launch_own(CudaDevice& device, GatedGemmProblem problem, const GemmConfig& config) {
  if (!crowds(device, problem, config)) problem.overlap = overlap_of(device, problem);
  const cudaError_t error = launch_gated_gemm(problem, config, device.stream());
  if (error == cudaSuccess) device.let_next_begin(problem.out, bytes_of_rows(problem.m, problem.out_stride));
  return error;
}

GemmChoice choice_of(const GemmConfig& config) {
  return {GemmWays::own, static_cast<uint64_t>(config.kernel), static_cast<uint64_t>(config.id)};
}

std::optional<GemmConfig> config_of(const GemmChoice& choice) {
  for (const GemmConfig& config : gated_gemm_configs())
    if (static_cast<uint64_t>(config.kernel) == choice[1] && static_cast<uint64_t>(config.id) == choice[2])
      return config;
  return {};
}

}  // namespace epilogue::cuda
