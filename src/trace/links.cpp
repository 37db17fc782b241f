#include "trace/links.h"

#include <algorithm>
#include <future>
#include <tuple>

#include "trace/steps.h"

namespace epilogue::trace {
namespace {

constexpr auto comes_before = [](const Event& a, const Event& b) {  // a lambda: std::sort inlines it
  if (a.start_ns != b.start_ns) return a.start_ns < b.start_ns;
  if (a.duration_ns != b.duration_ns) return a.duration_ns > b.duration_ns;
  const bool a_is_range = a.kind == EventKind::gpu_user_annotation;
  const bool b_is_range = b.kind == EventKind::gpu_user_annotation;
  if (a_is_range != b_is_range) return b_is_range;  // PyTorch lists a range after the kernel it equals
  return std::tie(a.external_id, a.correlation, a.kind, a.name, a.track, a.detail) <
         std::tie(b.external_id, b.correlation, b.kind, b.name, b.track, b.detail);
};

int64_t count_overlapping_steps(const Trace& trace) {
  int64_t overlapping = 0, end = INT64_MIN;
  for (const Event& event : trace.events) {
    if (!is_step(trace, event)) continue;
    overlapping += event.start_ns < end;
    end = std::max(end, event.end_ns());
  }
  return overlapping;
}

int64_t count_overlaps(const Trace& trace) {
  std::vector<std::vector<int64_t>> open(trace.tracks.size());  // ends of the slices around, per track
  int64_t overlaps = 0;
  for (const Event& event : trace.events) {
    if (!is_host_slice(event.kind)) continue;
    auto& ends = open[event.track];
    while (!ends.empty() && ends.back() <= event.start_ns) ends.pop_back();
    if (!ends.empty() && event.end_ns() > ends.back()) {
      ++overlaps;
      while (!ends.empty() && event.end_ns() > ends.back()) ends.pop_back();
    }
    ends.push_back(event.end_ns());
  }
  return overlaps;
}

}  // namespace

// The two halves at the same time, then together.
void order_events(Trace& trace) {
  auto& events = trace.events;
  if (std::is_sorted(events.begin(), events.end(), comes_before)) return;
  const auto middle = events.begin() + static_cast<ptrdiff_t>(events.size() / 2);
  auto first = std::async(std::launch::async, [&] { std::sort(events.begin(), middle, comes_before); });
  std::sort(middle, events.end(), comes_before);
  first.get();
  if (comes_before(*middle, *(middle - 1)))
    std::inplace_merge(events.begin(), middle, events.end(), comes_before);
}

std::set<int64_t> working_devices(const Trace& trace) {
  std::set<int64_t> working;
  for (const Event& event : trace.events)
    if (is_device_work(event.kind)) working.insert(trace.tracks[event.track].process);
  return working;
}

std::vector<uint32_t> launching_calls(const Trace& trace) {
  std::vector<std::pair<uint32_t, uint32_t>> calls;  // correlation, event
  for (uint32_t i = 0; i < trace.events.size(); ++i) {
    const Event& event = trace.events[i];
    if (is_runtime_call(event.kind) && event.correlation != 0) calls.emplace_back(event.correlation, i);
  }
  if (!std::is_sorted(calls.begin(), calls.end())) std::sort(calls.begin(), calls.end());
  std::vector<uint32_t> launches(trace.events.size(), kNoEvent);
  for (size_t i = 0; i < launches.size(); ++i) {
    const Event& event = trace.events[i];
    if (!is_device_work(event.kind) || event.correlation == 0) continue;
    // The latest before the work; where the clocks disagree, the first after it.
    const auto after =
        std::lower_bound(calls.begin(), calls.end(), std::pair{event.correlation, static_cast<uint32_t>(i)});
    if (after != calls.begin() && (after - 1)->first == event.correlation)
      launches[i] = (after - 1)->second;
    else if (after != calls.end() && after->first == event.correlation)
      launches[i] = after->second;
  }
  return launches;
}

void count_broken_links(Trace& trace) {
  const std::vector<uint32_t> launches = launching_calls(trace);
  int64_t unlaunched = 0;
  for (size_t i = 0; i < launches.size(); ++i)
    if (is_device_work(trace.events[i].kind) && launches[i] == kNoEvent) ++unlaunched;
  if (unlaunched > 0)
    trace.problems.push_back({"kernels and copies without the call that launched them", unlaunched});
  if (const int64_t steps = count_overlapping_steps(trace); steps > 0)
    trace.problems.push_back({"steps that overlap: what happens in several is the last one's", steps});
  const int64_t overlaps = count_overlaps(trace);
  if (overlaps > 0) trace.problems.push_back({"slices that overlap on one thread", overlaps});
}

}  // namespace epilogue::trace
