#include "trace/lanes.h"

#include <algorithm>

#include "trace/links.h"

namespace epilogue::trace {
namespace {

constexpr uint32_t kMostLanes = 64;  // the last takes what fits nowhere

struct Slice {
  int64_t end_ns;
  bool range;
};

class Lane {
 public:
  // Takes the slice, unless it overlaps what is here without lying in it. Slices come in order.
  bool take(int64_t start_ns, const Slice& slice) {
    while (!open_.empty() && open_.back().end_ns <= start_ns) open_.pop_back();
    if (!open_.empty() && (!open_.back().range || slice.end_ns > open_.back().end_ns)) return false;
    open_.push_back(slice);
    return true;
  }

 private:
  std::vector<Slice> open_;
};

}  // namespace

std::vector<uint32_t> overlap_lanes(const Trace& trace) {
  std::vector<uint32_t> lane_of(trace.events.size());
  std::vector<uint32_t> slices;
  const auto is_range = [&](uint32_t i) { return trace.events[i].kind == EventKind::gpu_user_annotation; };
  for (uint32_t i = 0; i < trace.events.size(); ++i)
    if (is_device_work(trace.events[i].kind) || is_range(i)) slices.push_back(i);
  // A range lies after the kernel that it equals, and would not be around it.
  std::stable_sort(slices.begin(), slices.end(), [&](uint32_t a, uint32_t b) {
    const Event &left = trace.events[a], &right = trace.events[b];
    if (left.start_ns != right.start_ns) return left.start_ns < right.start_ns;
    if (is_range(a) != is_range(b)) return is_range(a);
    return left.duration_ns > right.duration_ns;
  });
  std::vector<std::vector<Lane>> lanes(trace.tracks.size());
  for (const uint32_t i : slices) {
    const Event& event = trace.events[i];
    auto& rows = lanes[event.track];
    uint32_t row = 0;
    for (; row < kMostLanes - 1; ++row) {
      if (row == rows.size()) rows.emplace_back();
      if (rows[row].take(event.start_ns, {event.end_ns(), is_range(i)})) break;
    }
    lane_of[i] = row;
  }
  return lane_of;
}

}  // namespace epilogue::trace
