#include "backend/cuda/gemm_tuning.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include <fmt/format.h>

#include "backend/cuda/check.h"

namespace epilogue::cuda {
namespace {

constexpr size_t kRounds = 6;
constexpr double kBudgetMs = 4;  // a call's share, the loading of kernels included

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

double GemmTuning::Candidate::median_us() const {
  if (fails || us.empty()) return std::numeric_limits<double>::infinity();
  std::vector<double> sorted = us;
  std::sort(sorted.begin(), sorted.end());
  return sorted[sorted.size() / 2];
}

std::optional<double> GemmTuning::time_once(CudaDevice& device, const GemmPlan& plan,
                                            const GemmProblem& problem, const Candidate& candidate) {
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
  if (status != CUBLAS_STATUS_SUCCESS) return {};
  float ms = 0;
  EP_CUDA(cudaEventElapsedTime(&ms, events.from, events.to));
  return static_cast<double>(ms) * 1e3;
}

void GemmTuning::try_some(CudaDevice& device, const GemmPlan& plan, const GemmProblem& problem) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  while (!over_ && std::chrono::duration<double, std::milli>(Clock::now() - begin).count() < kBudgetMs) {
    Candidate& candidate = candidates_[next_];
    if (!candidate.fails) {
      const auto us = time_once(device, plan, problem, candidate);
      candidate.fails = !us;
      if (us && round_ > 0) candidate.us.push_back(*us);  // the first round loads the kernel
    }
    if (++next_ == candidates_.size()) {
      next_ = 0;
      over_ = ++round_ == kRounds;
    }
  }
  choose();
}

void GemmTuning::choose() {
  best_ = 0;
  for (size_t i = 0; i < candidates_.size(); ++i) {
    // The library's favourite is left only for something clearly quicker.
    const double margin = best_ == 0 ? 0.99 : 1.0;
    if (candidates_[i].median_us() < margin * candidates_[best_].median_us()) best_ = i;
  }
}

std::string GemmTuning::report() const {
  std::string times;
  for (const Candidate& candidate : candidates_) times += fmt::format(" {:.1f}", candidate.median_us());
  return fmt::format("algorithm {} of {}, us:{}", best_, candidates_.size(), times);
}

}  // namespace epilogue::cuda
