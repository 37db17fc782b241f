#include "cli/measure.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <utility>

namespace epilogue::cli {

Timing distribution(std::vector<double> us) {
  std::sort(us.begin(), us.end());
  const auto at = [&us](double share) {
    return us[static_cast<size_t>(share * static_cast<double>(us.size() - 1))];
  };
  std::vector<int64_t> ns;
  for (const double one : us) ns.push_back(std::llround(one * 1e3));
  return {at(0.5), us.front(), at(0.95), static_cast<int64_t>(us.size()), trace::Spread(std::move(ns))};
}

std::vector<Timing> measure_in_turns(std::span<const std::function<void()>> ways, double min_seconds,
                                     TimedBy clock) {
  constexpr double kTurnUs = 50e3;
  const auto now_us = [clock] {
    timespec now{};
    clock_gettime(clock == TimedBy::thread ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &now);
    return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
  };
  struct Measured {
    std::vector<double> us;
    double total_us = 0;
  };
  std::vector<Measured> all(ways.size());
  const auto enough = [&](const Measured& m) { return m.us.size() >= 5 && m.total_us >= min_seconds * 1e6; };
  for (const auto& once : ways)
    for (int i = 0; i < 3; ++i) once();
  while (!std::ranges::all_of(all, enough))
    for (size_t i = 0; i < ways.size(); ++i) {
      Measured& m = all[i];
      if (enough(m)) continue;
      // Where calls are short, the first one still pays for what the way before left in the caches.
      if (ways.size() > 1 && (m.us.empty() || m.us.back() < kTurnUs)) ways[i]();
      const double turn_end = m.total_us + kTurnUs;
      do {
        const double start = now_us();
        ways[i]();
        m.us.push_back(now_us() - start);
        m.total_us += m.us.back();
      } while (m.total_us < turn_end && !enough(m));
    }
  std::vector<Timing> timings;
  for (Measured& m : all) timings.push_back(distribution(std::move(m.us)));
  return timings;
}

}  // namespace epilogue::cli
