#include <array>
#include <map>
#include <optional>
#include <vector>

#include "backend/cuda/device.h"
#include "backend/cuda/gated.h"
#include "backend/cuda/gemm.h"
#include "backend/cuda/one_kernel_mlp.h"
#include "backend/cuda/own_gemm.h"
#include "backend/cuda/shared_tuning.h"
#include "tensor/view.h"

namespace epilogue::cuda {
namespace {

// Inputs: x, gate, up, down, then their three biases or none.
bool has_biases(const KernelCall& call) { return call.inputs.size() == 7; }

Dims hidden_sizes(const KernelCall& call) {
  const Tensor &x = call.inputs[0], &gate = call.inputs[1];
  return {x.numel() / gate.size(1), gate.size(0)};
}

size_t hidden_bytes(const KernelCall& call) {
  const Dims sizes = hidden_sizes(call);
  return static_cast<size_t>(sizes[0] * sizes[1]) * dtype_size(call.output.dtype());
}

// What `body` gives for the call of the gated kernel alone, which writes `hidden`.
template <class Body>
auto as_gated_linear(const KernelCall& call, Tensor& hidden, Body&& body) {
  const auto in = call.inputs;
  if (!has_biases(call)) return body({Op::gated_linear, call.attrs, in.first(3), hidden});
  const std::array inputs{in[0], in[1], in[2], in[4], in[5]};
  return body({Op::gated_linear, call.attrs, inputs, hidden});
}

KernelRan run_down(const KernelCall& call, const Tensor& hidden) {
  static const Attrs kNoAttrs;
  const auto in = call.inputs;
  std::vector<Tensor> inputs;
  if (has_biases(call)) inputs.push_back(in[6]);
  inputs.insert(inputs.end(), {hidden, in[3].t()});
  Tensor out = call.output.view({hidden.size(0), in[3].size(0)});
  return run_gemm_after_gated({has_biases(call) ? Op::addmm : Op::mm, kNoAttrs, inputs, out});
}

KernelRan run_two_kernels(const KernelCall& call, Tensor& hidden) {
  const KernelRan gated = as_gated_linear(
      call, hidden, [&](const KernelCall& first) { return run_gated_linear_before(first, call.inputs[3]); });
  device_of(call.output).launch_is_over();
  const KernelRan down = run_down(call, hidden);
  return {.name = "gated_mlp", .repeatable = gated.repeatable && down.repeatable};
}

MlpGemmProblem problem_of(const KernelCall& call, Tensor& hidden) {
  MlpGemmProblem problem;
  problem.gated = as_gated_linear(call, hidden, gated_problem_of);
  const Tensor& down = call.inputs[3];
  problem.dim = down.size(0);
  problem.down = down.data();
  problem.down_stride = down.size(1);
  if (has_biases(call)) problem.down_bias = call.inputs[6].data();
  problem.out = const_cast<void*>(call.output.data());
  problem.out_stride = problem.dim;
  return problem;
}

GemmKey key_of(const MlpGemmProblem& problem) {
  GemmKey key = gated_key_of(problem.gated);
  key.place = GemmPlace::whole_mlp;
  key.last_n = problem.dim;
  return key;
}

GemmChoice choice_of(const std::optional<MlpGemmConfig>& config) {
  if (!config) return {GemmWays::two_kernels};
  return {GemmWays::one_kernel, static_cast<uint64_t>(config->id), static_cast<uint64_t>(config->parts)};
}

// How a thread runs a problem that it has met: by one kernel, or by two.
struct KnownMlp {
  std::optional<MlpGemmConfig> one;
  bool settled = false;
};

// Nothing: the choice that a file holds is none of today's ways.
std::optional<KnownMlp> known_from(const GemmChoice& kept, const std::vector<MlpGemmConfig>& candidates) {
  if (kept == choice_of(std::nullopt)) return KnownMlp{std::nullopt, true};
  for (const MlpGemmConfig& config : candidates)
    if (kept == choice_of(config)) return KnownMlp{config, true};
  return {};
}

// The first way is the two kernels, whose own choices are settled by now. False: nothing was timed, so that
// the output is still theirs.
bool choose(CudaDevice& device, KnownMlp& known, const KernelCall& call, Tensor& hidden,
            const MlpGemmProblem& problem, const std::vector<MlpGemmConfig>& candidates) {
  const TuningState state = tune(
      device, key_of(problem),
      {.count = candidates.size() + 1,
       .own_from = 1,
       .x = problem.gated.x,
       .x_bytes = bytes_of_x(problem.gated),
       .run =
           [&](size_t i) {
             if (i > 0) return launch_one_kernel(device, problem, candidates[i - 1]) == cudaSuccess;
             run_two_kernels(call, hidden);
             return true;
           },
       .choice = [&](size_t i) { return i == 0 ? choice_of(std::nullopt) : choice_of(candidates[i - 1]); }});
  known.one = state.best == 0 ? std::nullopt : std::optional(candidates[state.best - 1]);
  known.settled = state.over;
  return state.timed;
}

}  // namespace

// Asked at every call that is not replayed, so nothing is built but what must be seen.
const char* refuse_gated_mlp(const KernelCall& call) {
  const Tensor& down = call.inputs[3];
  if (call.inputs[1].size(1) == 0) return "nothing to sum over";
  if (!down.is_contiguous() || (has_biases(call) && !call.inputs[6].is_contiguous()))
    return "the last weight or bias has gaps";
  const char* large = "the hidden tensor is large: another launch costs nothing there";
  if (hidden_bytes(call) > kMostHiddenBytesOfOneKernel) return large;
  // Somewhere as well aligned as the hidden tensor will be.
  const Dims sizes = hidden_sizes(call);
  Tensor hidden = Tensor::over(call.output.storage_ref(), call.output.dtype(), sizes, {sizes[1], 1}, 0);
  if (const char* reason = as_gated_linear(call, hidden, refuse_gated_linear)) return reason;
  if (hidden_bytes(call) <= kBetweenKernelsBytes) return nullptr;
  return refuse_one_kernel(device_of(call.output), problem_of(call, hidden)) ? large : nullptr;
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
  const MlpGemmProblem problem = problem_of(call, hidden);
  if (refuse_one_kernel(device, problem)) return run_two_kernels(call, hidden);
  static thread_local std::map<std::pair<int, GemmKey>, KnownMlp> known_mlps;
  if (known_mlps.size() > 4096) known_mlps.clear();
  KnownMlp& known = known_mlps[{device.index(), key_of(problem)}];
  if (!known.settled) [[unlikely]] {
    const std::vector<MlpGemmConfig> candidates = one_kernel_candidates(problem);
    const auto kept = choices_of(device).find(key_of(problem));
    if (const auto settled = kept ? known_from(*kept, candidates) : std::nullopt) {
      known = *settled;
    } else {
      const KernelRan ran = run_two_kernels(call, hidden);
      if (!ran.repeatable || !choose(device, known, call, hidden, problem, candidates))
        return {.name = ran.name, .repeatable = false};
    }
  }
  if (known.one) {
    if (launch_one_kernel(device, problem, *known.one) == cudaSuccess)
      return {.name = "mlp_gemm", .repeatable = known.settled && fits_workspace};
    (void)cudaGetLastError();  // as where fewer multiprocessors are left than it was timed on
    known.one.reset();
  }
  const KernelRan ran = run_two_kernels(call, hidden);
  return {.name = ran.name, .repeatable = ran.repeatable && known.settled && fits_workspace};
}

}  // namespace epilogue::cuda
