// The profiler's clock: the CPU's time-stamp counter where it runs at one rate on all cores, otherwise
// std::chrono::steady_clock. Ticks become nanoseconds when a window is collected, not when they are read.
#pragma once

#include <chrono>
#include <cstdint>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace epilogue::profile {

extern const bool has_invariant_tsc;

inline uint64_t ticks_now() {
#if defined(__x86_64__)
  if (has_invariant_tsc) [[likely]]
    return __rdtsc();
#endif
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

// One moment on the clocks.
struct ClockReading {
  uint64_t ticks = 0;
  int64_t steady_ns = 0;
  int64_t unix_ns = 0;
};
ClockReading read_clocks();

// The nanoseconds one tick takes, measured over the window; over the time since the library was loaded where
// the window is too short for it (a reading is good to tens of nanoseconds).
double ns_per_tick(const ClockReading& begin, const ClockReading& end);

// The same clock for an API that takes nothing but nanoseconds: near the system's time, at one rate for the
// life of the process, hence exact when turned back into ticks.
uint64_t clock_ns_now();
uint64_t clock_ns_to_ticks(uint64_t ns);

}  // namespace epilogue::profile
