// The figures that rules are about, taken from a trace once.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "epilogue/trace.h"
#include "trace/placement.h"

namespace epilogue::trace {

// Names are views into the trace. All but the memory is of the steps alone, or of the whole trace where it
// marks none.
struct Observed {
  std::vector<Step> steps;
  bool has_device = false;
  int64_t untied = 0;                               // count_untied; without steps of the whole trace
  int64_t longest_gap_ns = 0;                       // begins in a step and is ended by its work
  std::map<std::string, int64_t> memory_peaks;      // of trace/summary.h
  std::map<std::string_view, std::string> kernels;  // by name: short_name
  std::map<std::string_view, int64_t> copies;       // between host and device
  std::map<std::string_view, int64_t> compiles;     // events that say something was compiled
  // By op: how many of its calls launched so many kernels, with those of the ops they call.
  std::map<std::string_view, std::map<int64_t, int64_t>> calls_by_kernels;

  // Where neither is there, as in a trace of ops alone, no kernels does not mean that none ran.
  bool tells_of_kernels() const { return has_device || !kernels.empty(); }
  double idle_share() const;  // of the wall time, median over the steps
};
Observed observe(const Trace& trace);

}  // namespace epilogue::trace
