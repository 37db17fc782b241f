#include "backend/cuda/gemm_tuning.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "backend/cuda/check.h"

namespace epilogue::cuda {
namespace {

constexpr size_t kRounds = 4;
constexpr double kBudgetMs = 8;  // a call's share, the loading of kernels included

struct TimedPair {
  cudaEvent_t from = nullptr, to = nullptr;
  TimedPair() {
    EP_CUDA(cudaEventCreate(&from));
    EP_CUDA(cudaEventCreate(&to));
  }
  ~TimedPair() {
    cudaEventDestroy(from);
    cudaEventDestroy(to);
  }
  TimedPair(const TimedPair&) = delete;
  TimedPair& operator=(const TimedPair&) = delete;
};

int64_t bytes_of(const GemmKey& key) {
  return key.batch * (key.m * key.k + key.k * key.n + key.m * key.n) *
         static_cast<int64_t>(dtype_size(key.dtype));
}

}  // namespace

GemmTuning::GemmTuning(std::vector<cublasLtMatmulAlgo_t> candidates) {
  for (const cublasLtMatmulAlgo_t& algo : candidates) candidates_.push_back({algo});
  over_ = candidates_.size() == 1;
}

double GemmTuning::time_once(CudaDevice& device, const GemmPlan& plan, const GemmProblem& problem,
                             Candidate& candidate) {
  static thread_local TimedPair events;
  const auto cache = static_cast<size_t>(device.properties().l2CacheSize);
  detail::StorageRef flush;
  if (static_cast<size_t>(bytes_of(problem.key)) < 2 * cache) {
    flush = device.allocate(2 * cache);
    EP_CUDA(cudaMemsetAsync(flush.get()->data, 0, 2 * cache, device.stream()));
  }
  EP_CUDA(cudaEventRecord(events.from, device.stream()));
  const cublasStatus_t status = plan.run(device, problem, candidate.algo);
  EP_CUDA(cudaEventRecord(events.to, device.stream()));
  EP_CUDA(cudaEventSynchronize(events.to));
  if (status != CUBLAS_STATUS_SUCCESS) return -1;
  float ms = 0;
  EP_CUDA(cudaEventElapsedTime(&ms, events.from, events.to));
  return static_cast<double>(ms) * 1e3;
}

void GemmTuning::try_some(CudaDevice& device, const GemmPlan& plan, const GemmProblem& problem) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  while (!over_ && std::chrono::duration<double, std::milli>(Clock::now() - begin).count() < kBudgetMs) {
    Candidate& candidate = candidates_[next_];
    if (candidate.us >= 0) {
      // The first round loads the kernel: its time does not count.
      const double us = time_once(device, plan, problem, candidate);
      if (us < 0)
        candidate.us = -1;
      else if (round_ > 0)
        candidate.us = candidate.us == 0 ? us : std::min(candidate.us, us);
    }
    if (++next_ == candidates_.size()) {
      next_ = 0;
      if (++round_ == kRounds) finish();
    }
  }
}

void GemmTuning::finish() {
  over_ = true;
  for (size_t i = 0; i < candidates_.size(); ++i) {
    const double us = candidates_[i].us, best = candidates_[best_].us;
    // The library's favourite is left only for something clearly quicker.
    if (us > 0 && (best <= 0 || us < best * (best_ == 0 ? 0.99 : 1.0))) best_ = i;
  }
}

std::string GemmTuning::report() const {
  std::string times;
  for (const Candidate& candidate : candidates_) times += fmt::format(" {:.1f}", candidate.us);
  return fmt::format("algorithm {} of {}, us:{}", best_, candidates_.size(), times);
}

}  // namespace epilogue::cuda
