#include "backend/cuda/tuning.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "backend/cuda/check.h"
#include "backend/cuda/kernels/read_through.h"

namespace epilogue::cuda {
namespace {

// Long runs differ little from each other, and their tuning should end within a few dozen calls.
constexpr double kLongUs = 300;
constexpr double kBudgetMs = 3;  // a call's share, the loading of kernels included
// Our kernels of many rows lose more than the library's when one follows the other at once: shorter than
// this they have to be clearly quicker (1024 x 1024 x 4096: as quick alone, the MLP 47 us beside 44.6).
constexpr double kShortUs = 40;
// Times the best way's, when a way is not timed again. One interruption may lengthen a short run by half, not
// a long one, which a second run then decides.
constexpr double kHopeless = 1.5, kLongHopeless = 1.1;
constexpr size_t kRunsBefore = 2;
constexpr double kSlowLoadMs = 4;
constexpr size_t kCallsWithoutMemory = 256;
constexpr double kCalm = 1.3;  // the median over the least

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point from) {
  return std::chrono::duration<double, std::milli>(Clock::now() - from).count();
}

struct Events {
  cudaEvent_t before = nullptr, from = nullptr, to = nullptr;
  Events() {
    for (cudaEvent_t* event : {&before, &from, &to}) EP_CUDA(cudaEventCreate(event));
  }
  ~Events() {
    for (cudaEvent_t event : {before, from, to}) cudaEventDestroy(event);
  }
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;
};

double us_between(cudaEvent_t from, cudaEvent_t to) {
  float ms = 0;
  EP_CUDA(cudaEventElapsedTime(&ms, from, to));
  return static_cast<double>(ms) * 1e3;
}

struct Sample {
  double us = 0;
  double first_us = 0;  // of the first way just before it; 0: something else ran there
};

// What is read to empty the cache, of twice its size; nothing where a run does so by itself.
detail::StorageRef flush_for(CudaDevice& device, int64_t bytes_of_run) {
  const size_t bytes = 2 * static_cast<size_t>(device.properties().l2CacheSize);
  if (static_cast<size_t>(bytes_of_run) >= bytes) return {};
  detail::StorageRef flush = device.allocate(bytes);
  EP_CUDA(cudaMemsetAsync(flush.get()->data, 0, bytes, device.stream()));
  return flush;
}

// Nothing when the way cannot run. Something runs before it, so that the device is never idle while the host
// launches: what empties the cache, or the first way, or where that fails the way itself. Before the cache is
// emptied the way runs once: the multiprocessors then hold its code, as those of a model's next layer do. A
// kernel whose code they have to fetch takes 3 us longer (1024 x 4096 x 1024 gated: 32.2 and 29.0 us).
std::optional<Sample> time_once(CudaDevice& device, const detail::StorageRef& flush, size_t way,
                                const TimedProblem& problem, const Events& events) {
  const auto runs = [&](size_t i) {
    const bool ran = problem.run(i);
    if (!ran) (void)cudaGetLastError();  // not the next launch's
    return ran;
  };
  bool first_ran = false;
  if (flush.get() && !runs(way)) return {};
  EP_CUDA(cudaEventRecord(events.before, device.stream()));
  if (flush.get()) {
    EP_CUDA(launch_read_through(flush.get()->data, flush.get()->bytes, device.stream()));
    if (problem.x_bytes <= flush.get()->bytes / 4)
      EP_CUDA(launch_read_through(problem.x, problem.x_bytes, device.stream()));
  } else {
    first_ran = runs(0);
    if (!first_ran && !runs(way)) return {};
  }
  EP_CUDA(cudaEventRecord(events.from, device.stream()));
  const bool ran = runs(way);
  EP_CUDA(cudaEventRecord(events.to, device.stream()));
  EP_CUDA(cudaEventSynchronize(events.to));
  if (!ran) return {};
  return Sample{us_between(events.from, events.to), first_ran ? us_between(events.before, events.from) : 0};
}

}  // namespace

Tuning::Tuning(size_t ways, size_t own_from, const TuningRules& rules)
    : ways_(ways), own_from_(own_from), rules_(rules), over_(ways == 1) {}

double Tuning::Way::median_us() const {
  if (fails || us.empty()) return std::numeric_limits<double>::infinity();
  std::vector<double> sorted = us;
  std::sort(sorted.begin(), sorted.end());
  return sorted[sorted.size() / 2];
}

double Tuning::Way::least_us() const { return *std::min_element(us.begin(), us.end()); }

bool Tuning::calm() const {
  std::vector<double> spreads;
  for (const Way& way : ways_)
    if (!way.fails && !way.us.empty()) spreads.push_back(way.median_us() / way.least_us());
  std::sort(spreads.begin(), spreads.end());
  return !spreads.empty() && spreads[spreads.size() / 2] < kCalm;
}

bool Tuning::try_some(CudaDevice& device, const TimedProblem& problem) {
  if (calls_to_pass_ > 0) {
    --calls_to_pass_;
    return false;
  }
  const auto begin = Clock::now();
  detail::StorageRef flush;
  try {
    flush = flush_for(device, problem.bytes);
  } catch (const Error&) {  // the call itself may well have what it needs
    calls_to_pass_ = kCallsWithoutMemory;
    return false;
  }
  const Events events;  // of this device
  loaded_slowly_ = false;
  TimedProblem watched = problem;
  watched.run = [&](size_t way) {
    const auto from = Clock::now();
    bool ran = false;
    try {
      ran = problem.run(way);
    } catch (const Error&) {  // as for want of scratch memory, which not all ways need
    }
    if (round_ == 0 && ms_since(from) > kSlowLoadMs) loaded_slowly_ = true;  // a launch alone takes no time
    return ran;
  };
  while (!over_ && ms_since(begin) < kBudgetMs) {
    Way& way = ways_[next_];
    const double best_us = ways_[best_].median_us();
    if (!challenger_) is_long_ = round_ > 1 && best_us > kLongUs;
    const bool known = way.us.size() >= kRunsBefore;
    const bool hopeless = (known || (is_long_ && !way.us.empty())) &&
                          way.least_us() > (known && is_long_ ? kLongHopeless : kHopeless) * best_us;
    const bool is_out = challenger_ && next_ != 0 && next_ != *challenger_;
    if (!way.fails && !hopeless && !is_out) {
      const auto sample = time_once(device, flush, next_, watched, events);
      way.fails = !sample;
      if (sample && round_ > 0)
        way.us.push_back(sample->us * scale(sample->first_us));  // round 0 loads kernels
    }
    if (++next_ == ways_.size()) {
      next_ = 0;
      end_round();
    }
  }
  return true;
}

void Tuning::end_round() {
  ++round_;
  choose();
  const size_t rounds = is_long_ ? rules_.long_rounds : rules_.rounds;
  if (round_ < rounds + (challenger_ ? rules_.last_rounds : 0)) return;
  over_ = challenger_ || best_ == 0 || rules_.last_rounds == 0;
  if (over_) return;
  challenger_ = best_;
  for (Way& way : ways_) way.us.clear();
}

// A card at its power limit runs the faster the longer it has just rested: what counts of a long run is how
// it compares with the first way's at the same moment.
double Tuning::scale(double first_us) {
  if (first_us < kLongUs) return 1;
  if (first_us_ == 0) first_us_ = first_us;
  return first_us_ / first_us;
}

size_t Tuning::best_of(size_t from, size_t to, double clearly) const {
  size_t best = from;
  for (size_t i = from + 1; i < to; ++i)
    if (ways_[i].median_us() < (best == from ? clearly : 1.0) * ways_[best].median_us()) best = i;
  return best;
}

void Tuning::choose() {
  best_ = best_of(0, own_from(), rules_.clearly);
  if (own_from() == ways_.size()) return;
  const size_t own = best_of(own_from(), ways_.size(), kClearly);
  const OverlapCredit& credit = rules_.credit;
  const double own_us = ways_[own].median_us(), saved = std::min(credit.most_us, credit.share * own_us);
  const double wanted = credit.share == 0 && own_us < kShortUs ? kClearly : 1;
  if (own_us - saved < wanted * ways_[best_].median_us()) best_ = own;
}

std::vector<size_t> Tuning::runners_up() const {
  constexpr size_t most_of_kind = 2;
  constexpr double nearly = 1.1, other_kind = 1.3;
  std::vector<size_t> all;
  const auto add = [&](size_t from, size_t to) {
    std::vector<std::pair<double, size_t>> kind;
    for (size_t i = from; i < to; ++i) kind.emplace_back(ways_[i].median_us(), i);
    std::sort(kind.begin(), kind.end());
    size_t taken = 0;
    for (const auto& [us, way] : kind) {
      const double most = std::min(nearly * kind[0].first, other_kind * ways_[best_].median_us());
      if (way == best_) continue;
      if (taken == most_of_kind || !(us <= most)) break;
      all.push_back(way);
      ++taken;
    }
  };
  add(0, own_from());
  add(own_from(), ways_.size());
  return all;
}

std::string Tuning::report() const {
  std::string times;
  for (const Way& way : ways_)
    times += way.us.empty() ? " -" : fmt::format(" {:.1f}", way.median_us());  // -: not of the last two
  return fmt::format("way {} of {}, us:{}", best_, ways_.size(), times);
}

}  // namespace epilogue::cuda
