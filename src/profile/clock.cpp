#include "profile/clock.h"

#include <cmath>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace epilogue::profile {
namespace {

bool detect_invariant_tsc() {
#if defined(__x86_64__)
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(0x80000007, &eax, &ebx, &ecx, &edx) != 0 && (edx & (1u << 8)) != 0;
#else
  return false;
#endif
}

template <class Clock>
int64_t clock_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
}

}  // namespace

const bool has_invariant_tsc = detect_invariant_tsc();

namespace {
const ClockReading at_load = read_clocks();
}

ClockReading read_clocks() {
  // Of several readings the tightest: an interrupt between the clocks would shift one against the other.
  ClockReading best;
  uint64_t tightest = UINT64_MAX;
  for (int i = 0; i < 5; ++i) {
    const uint64_t before = ticks_now();
    const int64_t steady = clock_ns<std::chrono::steady_clock>();
    const int64_t wall = clock_ns<std::chrono::system_clock>();
    const uint64_t after = ticks_now();
    if (after - before < tightest) {
      tightest = after - before;
      best = {before + (after - before) / 2, steady, wall};
    }
  }
  return best;
}

double ns_per_tick(const ClockReading& begin, const ClockReading& end) {
  constexpr int64_t kLongEnoughNs = 10'000'000;
  const ClockReading& from = end.steady_ns - begin.steady_ns >= kLongEnoughNs ? begin : at_load;
  if (!has_invariant_tsc || end.ticks <= from.ticks) return 1.0;
  return static_cast<double>(end.steady_ns - from.steady_ns) / static_cast<double>(end.ticks - from.ticks);
}

namespace {

double fixed_ns_per_tick() {
  static const double rate = ns_per_tick(at_load, read_clocks());
  return rate;
}

}  // namespace

uint64_t clock_ns_now() {
  const auto since_load = static_cast<double>(static_cast<int64_t>(ticks_now() - at_load.ticks));
  return static_cast<uint64_t>(at_load.unix_ns + std::llround(since_load * fixed_ns_per_tick()));
}

uint64_t clock_ns_to_ticks(uint64_t ns) {
  const auto since_load = static_cast<double>(static_cast<int64_t>(ns) - at_load.unix_ns);
  return at_load.ticks + static_cast<uint64_t>(std::llround(since_load / fixed_ns_per_tick()));
}

}  // namespace epilogue::profile
