#include "cli/measure.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace epilogue::cli {

Timing distribution(std::vector<double> us) {
  std::sort(us.begin(), us.end());
  const auto at = [&us](double share) {
    return us[static_cast<size_t>(share * static_cast<double>(us.size() - 1))];
  };
  return {at(0.5), us.front(), at(0.95), static_cast<int64_t>(us.size())};
}

Timing measure(const std::function<void()>& once, double min_seconds) {
  using Clock = std::chrono::steady_clock;
  for (int i = 0; i < 3; ++i) once();
  std::vector<double> us;
  const auto begin = Clock::now();
  do {
    const auto start = Clock::now();
    once();
    us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  } while (us.size() < 5 || std::chrono::duration<double>(Clock::now() - begin).count() < min_seconds);
  return distribution(std::move(us));
}

}  // namespace epilogue::cli
