// The device's side of a window's trace.
#include <algorithm>

#include <unistd.h>

#include <fmt/format.h>

#include "profile/trace_builder.h"
#include "trace/links.h"

namespace epilogue::profile {

using trace::EventKind;

void TraceBuilder::add_device(DeviceRecords records) {
  has_device_ = true;
  device_ = std::move(records);
  for (const DeviceRecord& record : device_.records) {
    if (!trace::is_runtime_call(record.kind)) continue;
    if (in_window(record.start)) {
      calls_of_[record.lane].push_back(&record);
    } else {
      calls_outside_.insert(record.correlation);  // of the warm-up, or of a thread that went on
    }
  }
  for (auto& [thread, calls] : calls_of_)
    std::ranges::stable_sort(calls, {}, [](const DeviceRecord* call) { return call->start; });
  trace_.devices = std::move(device_.devices);
  trace_.metadata = std::move(device_.metadata);
  trace_.problems = std::move(device_.problems);
  if (device_.dropped > 0)
    trace_.problems.push_back({"device records dropped, there was no buffer for them", device_.dropped});
}

void TraceBuilder::add_calls_before(uint64_t ticks) {
  for (; next_call_ < calls_.size() && calls_[next_call_]->start < ticks; ++next_call_) {
    const DeviceRecord& call = *calls_[next_call_];
    const Site site{innermost_op(call.start), innermost_range(call.start), call.start};
    sites_.emplace(call.correlation, site);
    trace::Event event = make_event(call, static_cast<uint32_t>(trace_.tracks.size() - 1));
    event.external_id = site.op_id;
    event.detail = call.detail;
    trace_.events.push_back(event);
  }
  if (next_call_ < calls_.size()) return;
  calls_.clear();
  next_call_ = 0;
}

// Threads that opened no event of ours in the window.
void TraceBuilder::add_calls_of_other_threads() {
  open_.clear();
  for (auto& [thread, calls] : calls_of_) {
    const std::string label = fmt::format("thread {}", thread);
    trace_.tracks.push_back(
        {.process = getpid(), .thread = thread, .device = false, .name = trace_.strings.intern(label)});
    calls_ = std::move(calls);
    add_calls_before(UINT64_MAX);
  }
}

void TraceBuilder::add_device_events() {
  for (const DeviceRecord& record : device_.records) {
    if (trace::is_device_work(record.kind) || record.kind == EventKind::cuda_sync) {
      add_work(record);
    } else if (record.kind == EventKind::overhead && in_window(record.start)) {
      trace_.events.push_back(make_event(record, overhead_track(record.lane)));
    }
  }
  add_ranges();
}

// What a call of the window launched is the window's, whenever it ran. What no recorded call launched is
// kept where it ran in the window, and counted as a broken link.
void TraceBuilder::add_work(const DeviceRecord& record) {
  const auto site = sites_.find(record.correlation);
  if (site == sites_.end() && (calls_outside_.contains(record.correlation) || !in_window(record.start)))
    return;
  trace::Event event = make_event(record, device_track(record));
  if (site != sites_.end()) event.external_id = site->second.op_id;
  if (record.detail != trace::kNoDetail) {
    if (record.kind == EventKind::kernel) {
      event.detail = launches_.index_of(device_.launches[record.detail], trace_.launches);
    } else if (record.kind != EventKind::cuda_sync) {
      event.detail = copy_index(device_.copies[record.detail], event.duration_ns);
    }
  }
  trace_.events.push_back(event);
  if (site != sites_.end() && trace::is_device_work(record.kind))
    extend_ranges(site->second, event.track, {event.start_ns, event.end_ns()});
}

void TraceBuilder::extend_ranges(const Site& site, uint32_t track, const Extent& extent) {
  for (uint32_t range = site.range; range != kNoRange; range = ranges_[range].around) {
    if (ranges_[range].end_ticks <= site.ticks) continue;
    Extent& whole = range_extents_.try_emplace({track, range}, extent).first->second;
    whole.start_ns = std::min(whole.start_ns, extent.start_ns);
    whole.end_ns = std::max(whole.end_ns, extent.end_ns);
  }
}

void TraceBuilder::add_ranges() {
  for (const auto& [key, extent] : range_extents_) {
    const auto& [track, range] = key;
    trace_.events.push_back({.start_ns = extent.start_ns,
                             .duration_ns = extent.end_ns - extent.start_ns,
                             .external_id = ranges_[range].id,
                             .name = ranges_[range].name,
                             .track = track,
                             .kind = EventKind::gpu_user_annotation});
  }
}

trace::Event TraceBuilder::make_event(const DeviceRecord& record, uint32_t track) {
  const int64_t start_ns = to_ns(record.start);
  return {.start_ns = start_ns,
          .duration_ns = std::max<int64_t>(to_ns(record.end) - start_ns, 0),
          .correlation = record.correlation,
          .name = trace_.strings.intern(device_.names[record.name]),
          .track = track,
          .kind = record.kind};
}

uint32_t TraceBuilder::device_track(const DeviceRecord& record) {
  const auto [at, added] =
      tracks_.try_emplace({record.device, record.lane, true}, static_cast<uint32_t>(trace_.tracks.size()));
  if (added) {
    const std::string label = fmt::format("stream {}", record.lane);
    trace_.tracks.push_back({.process = record.device,
                             .thread = record.lane,
                             .device = true,
                             .name = trace_.strings.intern(label)});
  }
  return at->second;
}

// Kineto's place for them: a process of their own, -1.
uint32_t TraceBuilder::overhead_track(int64_t thread) {
  constexpr int64_t kProcess = -1;
  const auto [at, added] =
      tracks_.try_emplace({kProcess, thread, false}, static_cast<uint32_t>(trace_.tracks.size()));
  if (added) trace_.tracks.push_back({.process = kProcess, .thread = thread, .device = false});
  return at->second;
}

uint32_t TraceBuilder::copy_index(trace::Copy copy, int64_t duration_ns) {
  copy.gb_per_s = duration_ns > 0 ? static_cast<float>(copy.bytes) / static_cast<float>(duration_ns) : 0.0f;
  trace_.copies.push_back(copy);
  return static_cast<uint32_t>(trace_.copies.size() - 1);
}

}  // namespace epilogue::profile
