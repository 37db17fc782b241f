#include "backend/cuda/gated.h"

#include <map>

#include <fmt/format.h>

#include "backend/cuda/check.h"
#include "backend/cuda/gemm_choices.h"
#include "backend/cuda/own_gemm.h"
#include "backend/cuda/shared_tuning.h"
#include "base/check.h"
#include "tensor/view.h"

namespace epilogue::cuda {
namespace {

struct Rows {
  const void* data = nullptr;
  int64_t stride = 0;  // 0: its rows are not evenly apart, or their elements no neighbours
};

Rows rows_of(const Tensor& tensor) {
  if (tensor.is_contiguous()) return {tensor.data(), tensor.size(-1)};
  if (tensor.dim() == 2 && tensor.stride(1) == 1) return {tensor.data(), tensor.stride(0)};
  return {};
}

}  // namespace

GatedGemmProblem gated_problem_of(const KernelCall& call) {
  const Tensor &x = call.inputs[0], &gate = call.inputs[1], &up = call.inputs[2];
  GatedGemmProblem problem{.dtype = x.dtype(), .act = call.attrs.act};
  problem.k = gate.size(1);
  problem.n = gate.size(0);
  problem.m = problem.k > 0 ? x.numel() / problem.k : 0;
  const Rows x_rows = rows_of(x), gate_rows = rows_of(gate), up_rows = rows_of(up);
  problem.x = x_rows.data;
  problem.gate = gate_rows.data;
  problem.up = up_rows.data;
  problem.x_stride = x_rows.stride;
  problem.gate_stride = gate_rows.stride;
  problem.up_stride = up_rows.stride;
  if (call.inputs.size() == 5) {
    problem.gate_bias = call.inputs[3].data();
    problem.up_bias = call.inputs[4].data();
  }
  problem.out = const_cast<void*>(call.output.data());
  problem.out_stride = problem.n;
  return problem;
}

GemmKey gated_key_of(const GatedGemmProblem& problem) {
  GemmKey key{.m = problem.m, .n = problem.n, .k = problem.k};
  key.a_ld = problem.x_stride;
  key.b_ld = problem.gate_stride;
  key.dtype = problem.dtype;
  key.act = problem.act;
  key.bias = problem.gate_bias ? GemmBias::row : GemmBias::none;
  key.place = GemmPlace::gated;
  return key;
}

namespace {

struct KnownGated {
  GemmConfig config{};
  bool settled = false;
};

void choose(CudaDevice& device, KnownGated& known, const GatedGemmProblem& problem, const GemmKey& key) {
  if (const auto kept = choices_of(device).find(key)) {
    if (const auto config = config_of(*kept); config && takes(*config, problem)) {
      known = {*config, true};
      return;
    }
  }
  const std::vector<GemmConfig> candidates = own_candidates(device, problem);
  const TuningState state =
      tune(device, key,
           {.count = candidates.size(),
            .x = problem.x,
            .x_bytes = bytes_of_x(problem),
            .run = [&](size_t i) { return launch_own(device, problem, candidates[i]) == cudaSuccess; },
            .choice = [&](size_t i) { return choice_of(candidates[i]); }});
  known = {candidates[state.best], state.over};
}

}  // namespace

const char* refuse_gated_linear(const KernelCall& call) {
  const DType dtype = call.output.dtype();
  if (dtype != DType::bf16 && dtype != DType::f16) return "the gated kernel is for bf16 and f16";
  for (size_t i = 0; i < 3; ++i)
    if (rows_of(call.inputs[i]).stride == 0) return "an operand's rows are not evenly apart";
  for (size_t i = 3; i < call.inputs.size(); ++i)
    if (!call.inputs[i].is_contiguous()) return "a bias has gaps";
  return refuse_own(device_of(call.output), gated_problem_of(call));
}

KernelRan run_gated_linear(const KernelCall& call) { return run_gated_linear_before(call, Tensor()); }

namespace {

void set_next(GatedGemmProblem& problem, const Tensor& next) {
  if (!next.defined()) return;
  problem.next = next.data();
  problem.next_bytes = next.numel() * static_cast<int64_t>(dtype_size(next.dtype()));
}

}  // namespace

KernelRan run_gated_linear_before(const KernelCall& call, const Tensor& next) {
  CudaDevice& device = device_of(call.output);
  GatedGemmProblem problem = gated_problem_of(call);
  const GemmKey key = gated_key_of(problem);
  static thread_local std::map<std::pair<int, GemmKey>, KnownGated> known_problems;
  if (known_problems.size() > 4096) known_problems.clear();
  KnownGated& known = known_problems[{device.index(), key}];
  if (!known.settled) [[unlikely]]
    choose(device, known, problem, key);
  set_next(problem, next);
  EP_CUDA(launch_own(device, problem, known.config));
  return {.name = "gated_gemm", .repeatable = known.settled};
}

bool run_gated_linear_by(const GemmChoice& choice, const KernelCall& call, const Tensor& next) {
  GatedGemmProblem problem = gated_problem_of(call);
  const auto config = config_of(choice);
  if (!config || !takes(*config, problem)) return false;
  set_next(problem, next);
  return launch_own(device_of(call.output), problem, *config) == cudaSuccess;
}

GemmFinalists finalists_gated(const KernelCall& call) {
  return choices_of(device_of(call.output)).finalists(gated_key_of(gated_problem_of(call)));
}

}  // namespace epilogue::cuda
