// What a trace tells, in tables: `epilogue trace summary`.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "epilogue/profiler.h"
#include "epilogue/trace.h"
#include "trace/steps.h"

namespace epilogue::trace {

// The calls of one kernel with one launch configuration.
struct KernelStats {
  std::string name;
  std::string brief;  // short_name(name)
  int64_t calls = 0, total_ns = 0, min_ns = INT64_MAX, max_ns = 0;
  int64_t in_steps_ns = 0;  // the part of total_ns that steps launched
  Launch launch;            // of a device's kernel; all 0 where the trace does not tell
  Work work;                // of a CPU kernel, summed over its calls; threads: the most
  bool cpu = false;
};

struct CopyStats {
  std::string name;
  int64_t calls = 0, total_ns = 0, bytes = 0;
};

struct DeviceMemory {
  int32_t device_type = 0, device_index = 0;  // Kineto's numbers
  int64_t allocations = 0, frees = 0;
  int64_t peak_allocated = 0, peak_reserved = 0;  // allocated: summed up where no event tells the total
  int64_t reserved_at_peak = 0;                   // of allocated
  double unused_reserve() const;                  // 1 - allocated / reserved, at the peak of allocated
};

// From a launching call's start to its kernel's, the first of a graph's; and how many launches were not yet
// started, as seen by each launch.
struct LaunchStats {
  int64_t launches = 0;
  int64_t median_latency_ns = 0, max_latency_ns = 0;
  int64_t max_queue = 0;
  double mean_queue = 0;
};

struct Summary {
  std::string file;
  int64_t events = 0;
  std::vector<std::string> devices;  // names of those that work, of all that are listed where none does
  std::vector<Step> steps;
  KeyAverages ops;
  std::vector<KernelStats> kernels;  // longest total first
  std::vector<CopyStats> copies;
  std::vector<DeviceMemory> memory;
  LaunchStats launch;
  std::vector<Problem> problems;
  bool damaged = false;
};

Summary summarise(const Trace& trace);

// The most that was allocated, by memory_device_name: a host's memory says nothing of a device's.
std::map<std::string, int64_t> memory_peaks(const Summary& summary);

// "NVIDIA H200", "2x NVIDIA H200"; different ones after each other.
std::string devices_text(const std::vector<std::string>& names);

struct SummaryText {
  std::string sort_by;  // of the op table; "": device time where there is a device, else CPU time
  int rows = 20;        // per table
};
// One file's tables; for several, first what they have in common, side by side.
std::string summary_text(const std::vector<Summary>& summaries, const SummaryText& options = {});
// An op's row as CLI.md's OP.
std::string op_json(const OpStats& op);
// The object of CLI.md; several: {"files": [...]}.
std::string summary_json(const std::vector<Summary>& summaries);

}  // namespace epilogue::trace
