// How the events of a trace hang together: order, launches, nesting.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "epilogue/trace.h"

namespace epilogue::trace {

inline constexpr uint32_t kNoEvent = UINT32_MAX;

inline bool is_kernel(EventKind kind) { return kind == EventKind::kernel || kind == EventKind::cpu_kernel; }
inline bool is_device_work(EventKind kind) {
  return kind == EventKind::kernel || kind == EventKind::gpu_memcpy || kind == EventKind::gpu_memset;
}
std::set<int64_t> working_devices(const Trace& trace);  // the numbers of those with work
inline bool is_runtime_call(EventKind kind) {
  return kind == EventKind::cuda_runtime || kind == EventKind::cuda_driver;
}
// Has an extent of its own: not an instant, not the profiler's window.
inline bool is_slice(EventKind kind) { return kind != EventKind::memory && kind != EventKind::span; }
inline bool is_host_slice(EventKind kind) {
  return kind == EventKind::cpu_op || kind == EventKind::user_annotation || is_runtime_call(kind);
}

// Puts the events into the order Trace::events promises. The result does not depend on the order before: what
// starts and ends together is ordered by its ids, since a parent's are lower.
void order_events(Trace& trace);

// Counts what does not fit together into Trace::problems: kernels whose launching call is missing, slices of
// a host thread that overlap without one holding the other, steps that overlap at all. Needs ordered events.
void count_broken_links(Trace& trace);

// For each event the runtime call that launched it (index into Trace::events), by correlation, the
// latest before it where several share one; kNoEvent for host events and where the call is missing.
std::vector<uint32_t> launching_calls(const Trace& trace);

}  // namespace epilogue::trace
