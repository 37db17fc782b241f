// The choice among the ways to run a whole gated MLP, and the calls themselves.
#include <map>
#include <optional>
#include <vector>

#include "backend/cuda/device.h"
#include "backend/cuda/gated.h"
#include "backend/cuda/one_kernel_mlp.h"
#include "backend/cuda/own_gemm.h"
#include "backend/cuda/shared_tuning.h"
#include "backend/cuda/two_kernel_mlp.h"

namespace epilogue::cuda {
namespace {

// Neither: two kernels, each by what was quickest for it alone.
struct MlpWay {
  std::optional<KernelPair> pair;
  std::optional<MlpGemmConfig> one;
};

GemmChoice choice_of(const MlpWay& way) {
  if (way.pair) return choice_of(*way.pair);
  if (!way.one) return {GemmWays::two_kernels};
  return {GemmWays::one_kernel, static_cast<uint64_t>(way.one->id), static_cast<uint64_t>(way.one->parts)};
}

std::vector<MlpGemmConfig> one_kernels(const CudaDevice& device, const MlpGemmProblem& problem) {
  return refuse_one_kernel(device, problem) ? std::vector<MlpGemmConfig>() : one_kernel_candidates(problem);
}

// Nothing: the choice that a file holds is none of today's ways.
std::optional<MlpWay> way_of(const GemmChoice& kept, const CudaDevice& device,
                             const MlpGemmProblem& problem) {
  if (kept[0] == GemmWays::two_kernels) return MlpWay{};
  if (const auto pair = pair_of(kept); pair && fits(*pair, problem)) return MlpWay{pair, {}};
  for (const MlpGemmConfig& config : one_kernels(device, problem))
    if (kept == choice_of({{}, config})) return MlpWay{{}, config};
  return {};
}

// How a thread runs a problem that it has met.
struct KnownMlp {
  MlpWay way;
  bool settled = false;
};

bool run_way(CudaDevice& device, const MlpWay& way, const KernelCall& call, Tensor& hidden,
             const MlpGemmProblem& problem) {
  if (way.one) return launch_one_kernel(device, problem, *way.one) == cudaSuccess;
  if (way.pair) return run_pair(*way.pair, call, hidden);
  run_two_kernels(call, hidden);
  return true;
}

// The first way is the two kernels, whose own choices are settled by now. False: nothing was timed, so that
// the output is still theirs.
bool choose(CudaDevice& device, KnownMlp& known, const KernelCall& call, Tensor& hidden,
            const MlpGemmProblem& problem) {
  std::vector<MlpWay> ways(1);
  for (const KernelPair& pair : pair_candidates(call, hidden)) ways.push_back({pair, {}});
  const size_t one_from = ways.size();
  for (const MlpGemmConfig& config : one_kernels(device, problem)) ways.push_back({{}, config});
  if (ways.size() == 1) {
    known.settled = true;
    return false;
  }
  const TuningState state =
      tune(device, mlp_key_of(problem),
           {.count = ways.size(),
            .own_from = one_from,
            .x = problem.gated.x,
            .x_bytes = bytes_of_x(problem.gated),
            .run = [&](size_t i) { return run_way(device, ways[i], call, hidden, problem); },
            .choice = [&](size_t i) { return choice_of(ways[i]); }});
  known.way = ways[state.best];
  known.settled = state.over;
  return state.timed;
}

}  // namespace

// Asked at every call that is not replayed, so nothing is built but what must be seen.
const char* refuse_gated_mlp(const KernelCall& call) {
  if (call.inputs[1].size(1) == 0) return "nothing to sum over";
  const char* large = "the hidden tensor is large: another launch costs nothing there";
  if (hidden_bytes(call) > kMostHiddenBytesOfOneKernel) return large;
  // Somewhere as well aligned as the hidden tensor will be.
  const Dims sizes = hidden_sizes(call);
  Tensor hidden = Tensor::over(call.output.storage_ref(), call.output.dtype(), sizes, {sizes[1], 1}, 0);
  if (const char* reason = refuse_gated_part(call, hidden)) return reason;
  if (hidden_bytes(call) <= kBetweenKernelsBytes) return nullptr;
  return refuse_one_kernel(device_of(call.output), mlp_problem_of(call, hidden)) ? large : nullptr;
}

KernelRan run_gated_mlp(const KernelCall& call) {
  CudaDevice& device = device_of(call.output);
  const Capture* capture = device.capture();
  const Dims sizes = hidden_sizes(call);
  const DType dtype = call.output.dtype();
  const bool fits_workspace = hidden_bytes(call) <= kBetweenKernelsBytes;  // else it is not replayed
  Tensor hidden = capture && capture->one_call && fits_workspace
                      ? Tensor::over(capture->workspace, dtype, sizes, {sizes[1], 1},
                                     static_cast<int64_t>(kWorkspaceBytes / dtype_size(dtype)))
                      : empty(sizes, {dtype, call.output.device()});
  const MlpGemmProblem problem = mlp_problem_of(call, hidden);
  const GemmKey key = mlp_key_of(problem);
  static thread_local std::map<std::pair<int, GemmKey>, KnownMlp> known_mlps;
  if (known_mlps.size() > 4096) known_mlps.clear();
  KnownMlp& known = known_mlps[{device.index(), key}];
  if (!known.settled) [[unlikely]] {
    const auto kept = choices_of(device).find(key);
    if (const auto way = kept ? way_of(*kept, device, problem) : std::nullopt) {
      known = {*way, true};
    } else {
      const KernelRan ran = run_two_kernels(call, hidden);
      if (!ran.repeatable || !choose(device, known, call, hidden, problem))
        return {.name = ran.name, .repeatable = ran.repeatable && known.settled && fits_workspace};
    }
  }
  if (known.settled && (known.way.one || known.way.pair)) {
    if (run_way(device, known.way, call, hidden, problem))
      return {.name = known.way.one ? "mlp_gemm" : "gated_mlp", .repeatable = fits_workspace};
    (void)cudaGetLastError();               // as where fewer multiprocessors are left than it was timed on
    if (!device.capture()) known.way = {};  // what cannot be recorded says nothing of the choice
  }
  const KernelRan ran = run_two_kernels(call, hidden);
  return {.name = ran.name, .repeatable = ran.repeatable && known.settled && fits_workspace};
}

}  // namespace epilogue::cuda
