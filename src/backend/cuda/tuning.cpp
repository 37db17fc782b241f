#include "backend/cuda/tuning.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "backend/cuda/check.h"

namespace epilogue::cuda {
namespace {

// Long runs differ little from each other, and their tuning should end within a few dozen calls.
constexpr double kLongUs = 300;
constexpr size_t kRounds = 6, kLongRounds = 4;
constexpr double kBudgetMs = 3;  // a call's share, the loading of kernels included
// Of the first way's time. A card that has just begun a long run is not yet at its power limit, where ways
// compare otherwise by a percent or two.
constexpr double kClearly = 0.99, kLongClearly = 0.97;
constexpr double kHopeless = 1.5, kLongHopeless = 1.1;  // times the best after a round: not timed again

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

// Nothing when it cannot run. Something runs before it, so that the device is never idle while the host
// launches: the flush of the cache, or the way itself.
std::optional<double> time_once(CudaDevice& device, int64_t bytes, const std::function<bool()>& run) {
  static thread_local TimedPair events;
  const auto cache = static_cast<size_t>(device.properties().l2CacheSize);
  detail::StorageRef flush;
  if (static_cast<size_t>(bytes) < 2 * cache) {
    flush = device.allocate(2 * cache);
    EP_CUDA(cudaMemsetAsync(flush.get()->data, 0, 2 * cache, device.stream()));
  } else if (!run()) {
    return {};
  }
  EP_CUDA(cudaEventRecord(events.from, device.stream()));
  const bool ran = run();
  EP_CUDA(cudaEventRecord(events.to, device.stream()));
  EP_CUDA(cudaEventSynchronize(events.to));
  if (!ran) return {};
  float ms = 0;
  EP_CUDA(cudaEventElapsedTime(&ms, events.from, events.to));
  return static_cast<double>(ms) * 1e3;
}

}  // namespace

Tuning::Tuning(size_t ways) : ways_(ways), over_(ways == 1) {}

double Tuning::Way::median_us() const {
  if (fails || us.empty()) return std::numeric_limits<double>::infinity();
  std::vector<double> sorted = us;
  std::sort(sorted.begin(), sorted.end());
  return sorted[sorted.size() / 2];
}

void Tuning::try_some(CudaDevice& device, int64_t bytes, const std::function<bool(size_t)>& run) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  while (!over_ && std::chrono::duration<double, std::milli>(Clock::now() - begin).count() < kBudgetMs) {
    Way& way = ways_[next_];
    const double best_us = ways_[best_].median_us();
    const bool is_long = round_ > 1 && best_us > kLongUs;
    const bool hopeless = round_ > 1 && way.median_us() > (is_long ? kLongHopeless : kHopeless) * best_us;
    if (!way.fails && !hopeless) {
      const auto us = time_once(device, bytes, [&] { return run(next_); });
      way.fails = !us;
      if (us && round_ > 0) way.us.push_back(*us);  // the first round loads the kernel
    }
    if (++next_ == ways_.size()) {
      next_ = 0;
      over_ = ++round_ >= (is_long ? kLongRounds : kRounds);
      choose();
    }
  }
}

void Tuning::choose() {
  best_ = 0;
  const double clearly = ways_[0].median_us() > kLongUs ? kLongClearly : kClearly;
  for (size_t i = 1; i < ways_.size(); ++i)
    if (ways_[i].median_us() < (best_ == 0 ? clearly : 1.0) * ways_[best_].median_us()) best_ = i;
}

std::string Tuning::report() const {
  std::string times;
  for (const Way& way : ways_) times += fmt::format(" {:.1f}", way.median_us());
  return fmt::format("way {} of {}, us:{}", best_, ways_.size(), times);
}

}  // namespace epilogue::cuda
