#include "backend/cuda/gemm.h"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "backend/cuda/check.h"
#include "backend/cuda/cublaslt.h"
#include "backend/cuda/gemm_choices.h"
#include "backend/cuda/kernels/gemm_reference.h"
#include "backend/cuda/own_gemm.h"
#include "backend/cuda/shared_tuning.h"
#include "base/check.h"

namespace epilogue::cuda {
namespace {

constexpr int kCandidates = 12;

// One way to run a product: an algorithm of cuBLASLt, or one of our own kernels.
struct GemmWay {
  cublasLtMatmulAlgo_t algo{};
  std::optional<GemmConfig> own;
};

// A problem as a thread meets it again: no lookup beyond one map.
struct KnownGemm {
  explicit KnownGemm(const GemmKey& key) : plan(key) {}
  GemmPlan plan;
  GemmWay way;
  bool settled = false;
};

// As our own kernels see it; refused by them when it is not theirs.
GatedGemmProblem own_problem(const GemmProblem& problem) {
  const GemmKey& key = problem.key;
  GatedGemmProblem own{.dtype = key.dtype, .act = key.act};
  own.m = key.m;
  own.n = key.n;
  own.k = key.k;
  own.x = problem.a;
  own.x_stride = key.a_ld;
  own.gate = problem.b;
  own.gate_stride = key.b_ld;
  own.gate_bias = key.bias == GemmBias::row ? problem.bias : nullptr;
  own.out = problem.c;
  own.out_stride = key.n;
  own.after_gated = key.place == GemmPlace::after_gated;
  return own;
}

std::vector<GemmWay> ways_of(CudaDevice& device, const GemmPlan& plan, const GemmProblem& problem) {
  std::vector<GemmWay> ways;
  for (const cublasLtMatmulAlgo_t& algo : plan.candidates(device, kCandidates)) ways.push_back({algo, {}});
  const GemmKey& key = problem.key;
  if (key.batch == 1 && !key.a_columns && key.b_columns && key.bias != GemmBias::matrix)
    for (const GemmConfig& config : own_candidates(device, own_problem(problem)))
      ways.push_back({{}, config});
  return ways;
}

bool run_way(CudaDevice& device, const GemmPlan& plan, const GemmProblem& problem, const GemmWay& way) {
  if (way.own) return launch_own(device, own_problem(problem), *way.own) == cudaSuccess;
  return plan.run(device, problem, way.algo) == CUBLAS_STATUS_SUCCESS;
}

GemmChoice choice_of_way(const GemmWay& way) {
  if (way.own) return choice_of(*way.own);
  GemmChoice choice{GemmWays::cublaslt};
  static_assert(std::size(decltype(way.algo.data){}) == kAlgorithmWords);
  std::copy_n(std::begin(way.algo.data), kAlgorithmWords, choice.begin() + 1);
  return choice;
}

// Nothing when the file speaks of a kernel that is no longer there.
std::optional<GemmWay> way_of(const GemmChoice& choice) {
  GemmWay way;
  if (choice[0] == GemmWays::own) {
    way.own = config_of(choice);
    return way.own ? std::optional(way) : std::nullopt;
  }
  std::copy_n(choice.begin() + 1, kAlgorithmWords, std::begin(way.algo.data));
  return way;
}

// Of `a`, where it is one matrix of rows.
size_t bytes_of_rows(const GemmKey& key) {
  if (key.batch > 1 || key.a_columns) return 0;
  return static_cast<size_t>((key.m - 1) * key.a_ld + key.k) * dtype_size(key.dtype);
}

// Chooses as well as can be told by now.
void choose(CudaDevice& device, KnownGemm& known, const GemmProblem& problem) {
  if (const auto kept = choices_of(device).find(problem.key))
    if (const auto way = way_of(*kept)) {
      known.way = *way;
      known.settled = true;
      return;
    }
  const std::vector<GemmWay> ways = ways_of(device, known.plan, problem);
  const auto own =
      std::find_if(ways.begin(), ways.end(), [](const GemmWay& way) { return way.own.has_value(); });
  const TuningState state =
      tune(device, problem.key,
           {.count = ways.size(),
            .own_from = static_cast<size_t>(own - ways.begin()),
            .x = problem.a,
            .x_bytes = bytes_of_rows(problem.key),
            .run = [&](size_t i) { return run_way(device, known.plan, problem, ways[i]); },
            .choice = [&](size_t i) { return choice_of_way(ways[i]); }});
  known.way = ways[state.best];
  known.settled = state.over;
}

KnownGemm& known_gemm(const CudaDevice& device, const GemmKey& key) {
  static thread_local std::map<std::pair<int, GemmKey>, KnownGemm> known_gemms;
  if (known_gemms.size() > 4096) known_gemms.clear();
  return known_gemms.try_emplace({device.index(), key}, key).first->second;
}

GemmProblem problem_after_gated(const KernelCall& call) {
  GemmProblem problem = gemm_problem(call);
  problem.key.place = GemmPlace::after_gated;
  return problem;
}

KernelRan run_product(CudaDevice& device, const GemmProblem& problem) {
  KnownGemm& known = known_gemm(device, problem.key);
  if (!known.settled) [[unlikely]]
    choose(device, known, problem);
  if (run_way(device, known.plan, problem, known.way))
    return {.name = known.way.own ? "own_gemm" : "cublasLtMatmul", .repeatable = known.settled};
  (void)cudaGetLastError();  // not the next launch's
  // A choice from a file that does not suit: the library's favourite runs instead. What cannot be recorded
  // says nothing of the choice.
  const GemmWay favourite{known.plan.candidates(device, 1).front(), {}};
  if (!device.capture()) known.way = favourite;
  check_cuda("cublasLtMatmul", known.plan.run(device, problem, favourite.algo));
  return {.name = "cublasLtMatmul", .repeatable = false};
}

}  // namespace

const char* refuse_gemm_cublaslt(const KernelCall& call) {
  const Tensor& a = call.inputs.back();
  if (a.dtype() == DType::f64) return "f64 is the reference's";
  if (a.size(-2) == 0) return "nothing to sum over";
  return refuse_layout(call);
}

KernelRan run_gemm_cublaslt(const KernelCall& call) {
  return run_product(device_of(call.output), gemm_problem(call));
}

KernelRan run_gemm_after_gated(const KernelCall& call) {
  return run_product(device_of(call.output), problem_after_gated(call));
}

bool run_gemm_after_gated_by(const GemmChoice& choice, const KernelCall& call) {
  CudaDevice& device = device_of(call.output);
  const GemmProblem problem = problem_after_gated(call);
  const auto way = way_of(choice);
  return way && run_way(device, known_gemm(device, problem.key).plan, problem, *way);
}

GemmFinalists finalists_after_gated(const KernelCall& call) {
  return choices_of(device_of(call.output)).finalists(problem_after_gated(call).key);
}

KernelRan run_gemm_reference(const KernelCall& call) {
  const bool adds = call.op == Op::addmm;
  const Tensor &a = call.inputs[adds ? 1 : 0], &b = call.inputs[adds ? 2 : 1];
  ReferenceGemm gemm{.m = a.size(-2), .n = b.size(-1), .k = a.size(-1)};
  gemm.batch = call.op == Op::bmm ? a.size(0) : 1;
  gemm.a = {a.data(), call.op == Op::bmm ? a.stride(0) : 0, a.stride(-2), a.stride(-1)};
  gemm.b = {b.data(), call.op == Op::bmm ? b.stride(0) : 0, b.stride(-2), b.stride(-1)};
  if (adds) {
    const Tensor& bias = call.inputs[0];
    gemm.bias.data = bias.data();
    if (bias.dim() == 2 && bias.size(0) > 1) gemm.bias.row = bias.stride(0);
    if (bias.dim() > 0 && bias.size(-1) > 1) gemm.bias.column = bias.stride(-1);
  }
  gemm.c = const_cast<void*>(call.output.data());
  EP_CUDA(launch_gemm_reference(gemm, a.dtype(), device_of(a).stream()));
  return {"gemm_reference"};
}

}  // namespace epilogue::cuda
