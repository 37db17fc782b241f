#include "cli/measure.h"

#include <algorithm>
#include <ctime>
#include <utility>

namespace epilogue::cli {

Timing distribution(std::vector<double> us) {
  std::sort(us.begin(), us.end());
  const auto at = [&us](double share) {
    return us[static_cast<size_t>(share * static_cast<double>(us.size() - 1))];
  };
  return {at(0.5), us.front(), at(0.95), static_cast<int64_t>(us.size())};
}

Timing measure(const std::function<void()>& once, double min_seconds, TimedBy clock) {
  const auto now_us = [clock] {
    timespec now{};
    clock_gettime(clock == TimedBy::thread ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &now);
    return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
  };
  for (int i = 0; i < 3; ++i) once();
  std::vector<double> us;
  const double begin = now_us();
  do {
    const double start = now_us();
    once();
    us.push_back(now_us() - start);
  } while (us.size() < 5 || now_us() - begin < min_seconds * 1e6);
  return distribution(std::move(us));
}

}  // namespace epilogue::cli
