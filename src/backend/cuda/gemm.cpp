#include "backend/cuda/gemm.h"

#include <map>
#include <memory>

#include <fmt/format.h>

#include "backend/cuda/check.h"
#include "backend/cuda/cublaslt.h"
#include "backend/cuda/gemm_choices.h"
#include "backend/cuda/gemm_tuning.h"
#include "backend/cuda/kernels/gemm_reference.h"
#include "base/cache_dir.h"
#include "base/check.h"
#include "base/env.h"
#include "profile/event.h"

namespace epilogue::cuda {
namespace {

constexpr int kCandidates = 12;

// A problem as a thread meets it again: no lookup beyond one map.
struct KnownGemm {
  explicit KnownGemm(const GemmKey& key) : plan(key) {}
  GemmPlan plan;
  cublasLtMatmulAlgo_t algo{};
  bool settled = false;
};

std::string origin_of(CudaDevice& device) {
  std::string origin = device.info().name;
  for (const auto& [name, version] : device.info().libraries) origin += fmt::format("; {} {}", name, version);
  return origin;
}

GemmChoices& choices_of(CudaDevice& device) {
  static std::mutex mutex;
  static std::map<int, std::unique_ptr<GemmChoices>> all;
  const std::lock_guard lock(mutex);
  auto& choices = all[device.index()];
  if (!choices) choices = std::make_unique<GemmChoices>(cache_dir(), origin_of(device));
  return *choices;
}

// Tunings are shared: several threads may go on with one, in turn.
struct SharedTuning {
  std::mutex mutex;
  std::unique_ptr<GemmTuning> tuning;
};

SharedTuning& tuning_of(const GemmKey& key, int device) {
  static std::mutex mutex;
  static std::map<std::pair<int, GemmKey>, std::unique_ptr<SharedTuning>> all;
  const std::lock_guard lock(mutex);
  auto& shared = all[{device, key}];
  if (!shared) shared = std::make_unique<SharedTuning>();
  return *shared;
}

// Chooses as well as can be told by now; timing writes to the output, which the run after it writes again.
void choose(CudaDevice& device, KnownGemm& known, const GemmProblem& problem) {
  if (const auto kept = choices_of(device).find(problem.key)) {
    known.algo = *kept;
    known.settled = true;
    return;
  }
  SharedTuning& shared = tuning_of(problem.key, device.index());
  const std::lock_guard lock(shared.mutex);
  if (!shared.tuning)
    shared.tuning = std::make_unique<GemmTuning>(known.plan.candidates(device, kCandidates));
  GemmTuning& tuning = *shared.tuning;
  // A recording cannot be timed, and a profile shows what was asked for alone.
  if (!tuning.over() && !device.capture() && profile::recording_now() == 0) {
    tuning.try_some(device, known.plan, problem);
    if (tuning.over()) {
      choices_of(device).keep(problem.key, tuning.best());
      verbose_line("tuning", fmt::format("{}: {}", problem.key.to_string(), tuning.report()));
    }
  }
  known.algo = tuning.best();
  known.settled = tuning.over();
}

}  // namespace

const char* refuse_gemm_cublaslt(const KernelCall& call) {
  const Tensor& a = call.inputs.back();
  if (a.dtype() == DType::f64) return "f64 is the reference's";
  if (a.size(-2) == 0) return "nothing to sum over";
  return refuse_layout(call);
}

KernelRan run_gemm_cublaslt(const KernelCall& call) {
  CudaDevice& device = device_of(call.output);
  const GemmProblem problem = gemm_problem(call);
  static thread_local std::map<std::pair<int, GemmKey>, KnownGemm> known_gemms;
  if (known_gemms.size() > 4096) known_gemms.clear();
  KnownGemm& known = known_gemms.try_emplace({device.index(), problem.key}, problem.key).first->second;
  if (!known.settled) [[unlikely]]
    choose(device, known, problem);
  cublasStatus_t status = known.plan.run(device, problem, known.algo);
  if (status != CUBLAS_STATUS_SUCCESS) {  // a choice from a file that this library does not take
    known.algo = known.plan.candidates(device, 1).front();
    status = known.plan.run(device, problem, known.algo);
  }
  check_cuda("cublasLtMatmul", status);
  return {.name = "cublasLtMatmul", .repeatable = known.settled};
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
