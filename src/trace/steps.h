// The steps of a trace (ProfilerStep#N): how long, how busy the device was, and what bounded them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "epilogue/trace.h"

namespace epilogue::trace {

enum class Regime : uint8_t {
  launch_bound,  // the host works on ops and launches, the device waits for it
  device_bound,  // the device has work nearly all along, or the host waits for it longer than it for the host
  waiting_on_sync,  // the host waits for the device, the device is idle at times
  host_bound,       // the host does something else than ops
  cpu,              // the trace has no device
  // device work without its launch, a graph's launch without its work, or a damaged trace: what it lost may
  // be any step's
  incomplete,
};
const char* regime_name(Regime regime);  // "launch-bound"
// For a reader, with the shares that decide: "the device is idle for at most 5% of the step, or ..."
std::string regime_meaning(Regime regime);
// In the order in which they are asked for: the first that holds.
inline constexpr std::array kRegimes{Regime::incomplete,      Regime::cpu,          Regime::device_bound,
                                     Regime::waiting_on_sync, Regime::launch_bound, Regime::host_bound};

struct Step {
  std::string name;  // "ProfilerStep#2"
  int64_t start_ns = 0, wall_ns = 0;
  int64_t kernels = 0;  // that the step launched, on all devices; without a device: CPU kernels
  // Of one device, that which worked longest for the step; without a device of the CPU kernels. Both are over
  // all its streams. Busy: with what the step launched, wherever that runs in time, so that it may exceed the
  // wall time. Idle: the part of the wall time in which nothing ran, whoever launched it.
  int64_t device_busy_ns = 0, device_idle_ns = 0;
  int64_t device = 0;       // its number
  int64_t devices = 0;      // that work in the trace
  int64_t host_ops_ns = 0;  // a host thread is inside an op or a runtime call other than a wait
  // A host thread is inside *Synchronize or a copy that it waits for, and none inside an op.
  int64_t sync_ns = 0;
  Regime regime = Regime::host_bound;
  bool damaged = false;        // the trace is, so that all figures are of what is left
  std::string reason() const;  // the numbers the regime was decided from
};

inline constexpr std::string_view kStepPrefix = "ProfilerStep#";
// Whether the event marks a step: the range ProfilerStep#N.
inline bool is_step(const Trace& trace, const Event& event) {
  return event.kind == EventKind::user_annotation && trace.name(event).starts_with(kStepPrefix);
}

// Which step holds a moment, of several the one that began last. Asked in about the order of time it seldom
// searches. The steps are in time order and outlive it.
class StepSearch {
 public:
  explicit StepSearch(const std::vector<Step>& steps);
  // Into the steps; UINT32_MAX (kNoEvent): none.
  uint32_t at(int64_t ns);

 private:
  bool holds(size_t step, int64_t ns) const {
    return ns >= steps_[step].start_ns && ns < steps_[step].start_ns + steps_[step].wall_ns;
  }
  const std::vector<Step>& steps_;
  std::vector<int64_t> latest_end_;  // by step: of it and those before, which may last longer
  size_t last_ = 0;
};

// The median over the steps; 0 without steps.
int64_t median_of(const std::vector<Step>& steps, int64_t Step::*member);

// What bounded most of the steps; of equally many the latest. Not to be asked without steps.
Regime regime_of(const std::vector<Step>& steps);

// Where the trace's time begins for a reader: its first step, or its first slice where there are none.
struct Origin {
  int64_t ns = 0;
  bool is_step = false;
};
Origin origin_of(const Trace& trace);

// In time order. `launches` is launching_calls(trace).
std::vector<Step> find_steps(const Trace& trace, const std::vector<uint32_t>& launches);

}  // namespace epilogue::trace
