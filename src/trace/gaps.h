// Where a device's streams had nothing to do: `epilogue trace gaps`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "epilogue/trace.h"
#include "trace/links.h"

namespace epilogue::trace {

// An idle stretch of a stream between two kernels or copies. Without a device: of a thread between two CPU
// kernels of one step. Events are indices into Trace::events, kNoEvent where there is none.
struct Gap {
  uint32_t track = 0;
  int64_t start_ns = 0, duration_ns = 0;
  uint32_t ended_by = kNoEvent;     // the work that came next
  uint32_t launched_by = kNoEvent;  // the op that launched it
  // Where the launching thread spent most of the gap: the innermost op, range, call or Python function.
  uint32_t host = kNoEvent;
  int64_t host_ns = 0;        // how much of the gap that was
  int64_t unrecorded_ns = 0;  // how much of it that thread was in none of these, or in its step alone
};

// The gaps of a trace together.
struct GapSum {
  int64_t gaps = 0, idle_ns = 0;
  // From the first work to the last, of each stream; without a device of each thread in each step.
  int64_t window_ns = 0;
  struct Host {
    std::string name;  // Gap::host's; "": the thread's time was mostly unrecorded, or in its step alone
    int64_t gaps = 0, idle_ns = 0;
  };
  std::vector<Host> by_host;  // most idle first; each gap counts whole where most of it was spent
  double idle_share() const;
};
GapSum sum_gaps(const Trace& trace);

// What is no gap, since nothing ran before it: from a step's start to its first CPU kernel, the longest of
// the steps; with a device from the first step's start to the device's first work.
struct FirstWait {
  int64_t longest_ns = -1;  // -1: no step, nothing ran, or the device had work before the first step
  bool of_device = false;
};
FirstWait find_first_wait(const Trace& trace);

// Longest first, at most `most` of them; negative: all.
std::vector<Gap> find_gaps(const Trace& trace, int most);
// All of them, longest first, without launched_by and host: telling these costs a search for each gap.
std::vector<Gap> find_unexplained_gaps(const Trace& trace);

std::string gaps_text(const Trace& trace, int rows);
// {"file","damaged","gaps":[{...}],"gap_count","idle_us","window_us","idle_share",
//  "idle_by_host":[{"host","gaps","idle_us"}],"first_wait_us","problems"}
std::string gaps_json(const Trace& trace, int rows);

}  // namespace epilogue::trace
