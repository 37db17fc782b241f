// Timing a call: until a least time and count have passed, then the distribution.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "trace/spread.h"

namespace epilogue::cli {

struct Timing {
  double median_us = 0, min_us = 0, p95_us = 0;
  int64_t calls = 0;
  trace::Spread spread;  // of a call's nanoseconds
};

Timing distribution(std::vector<double> us);  // of one call or more

// What passes while a call runs: time, or the processor time of the calling thread, which is what one thread
// needs on a machine that others use too.
enum class TimedBy : uint8_t { wall, thread };

// Calls each way to warm up, then measures each further call for at least `min_seconds` and five calls. The
// ways take turns of a twentieth of a second: what else the machine does then falls on all of them alike. The
// median is what a user waits for: the mean follows the machine's interruptions, the minimum nobody sees
// again.
std::vector<Timing> measure_in_turns(std::span<const std::function<void()>> ways, double min_seconds,
                                     TimedBy clock = TimedBy::wall);

}  // namespace epilogue::cli
