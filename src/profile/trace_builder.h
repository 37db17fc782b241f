// Makes one trace of what the threads' buffers and the device tracer hold for a window.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "profile/buffer.h"
#include "profile/clock.h"
#include "profile/device_tracer.h"
#include "profile/window.h"
#include "trace/launch_index.h"

namespace epilogue::profile {

// Calls and threads are brought together by thread and time: a call belongs to the innermost op that was open
// on its thread when it began, so that ops need not tell the device tracer anything. Device work belongs
// where the call is that launched it, by correlation.
class TraceBuilder {
 public:
  // `flags` are the bits of `recording`.
  TraceBuilder(uint32_t flags, const ClockReading& begin, const ClockReading& end);

  // Before the threads; at most once.
  void add_device(DeviceRecords records);
  void add_thread(const ThreadBuffer& buffer, const std::string& name);
  void add_problem(std::string what) { trace_.problems.push_back({std::move(what), 1}); }
  WindowResult finish();

 private:
  static constexpr uint32_t kNoRange = UINT32_MAX;

  // A range of the caller's code, for the device's side of it.
  struct OpenedRange {
    uint64_t end_ticks;
    uint64_t id;
    trace::StringId name;
    uint32_t around;  // the range it was opened in
  };
  // An op or range that was open at some moment of a thread.
  struct Open {
    uint64_t end_ticks;
    uint64_t id;
    uint32_t range;  // kNoRange: an op
  };
  // Where a call was made.
  struct Site {
    uint64_t op_id;
    uint32_t range;
    uint64_t ticks;
  };
  struct Extent {
    int64_t start_ns, end_ns;
  };

  int64_t to_ns(uint64_t ticks) const;
  bool in_window(uint64_t ticks) const { return ticks >= begin_ticks_ && ticks <= end_ticks_; }

  // The host's side.
  void add_slot(const Slot& slot);
  uint64_t external_id(const Slot& slot, uint64_t end_ticks, trace::StringId name);
  uint64_t innermost_op(uint64_t ticks) const;
  uint32_t innermost_range(uint64_t ticks) const;
  uint32_t detail(const Slot& slot);
  uint32_t inputs_index(const int64_t* words);
  uint32_t work_index(trace::Work work);

  // The device's.
  void add_calls_before(uint64_t ticks);
  void add_calls_of_other_threads();
  void add_device_events();
  void add_work(const DeviceRecord& record);
  void add_ranges();
  void extend_ranges(const Site& site, uint32_t track, const Extent& extent);
  trace::Event make_event(const DeviceRecord& record, uint32_t track);
  uint32_t device_track(const DeviceRecord& record);
  uint32_t overhead_track(int64_t thread);
  uint32_t copy_index(trace::Copy copy, int64_t duration_ns);

  const uint32_t flags_;
  const uint64_t begin_ticks_, end_ticks_;
  const double ns_per_tick_;
  trace::Trace trace_;
  std::unordered_map<std::string_view, uint32_t> inputs_;  // encoded, into trace_.op_inputs
  std::map<std::tuple<int64_t, int64_t, int32_t>, uint32_t> work_;
  uint64_t next_id_ = 1;
  int64_t dropped_ = 0, cut_ops_ = 0;

  // Of the thread being added:
  std::vector<Open> open_;
  std::vector<const DeviceRecord*> calls_;  // in order
  size_t next_call_ = 0;

  bool has_device_ = false;
  DeviceRecords device_;
  std::unordered_map<int64_t, std::vector<const DeviceRecord*>> calls_of_;  // by thread
  std::unordered_set<uint32_t> calls_outside_;                              // correlations
  std::unordered_map<uint32_t, Site> sites_;                                // by correlation
  std::vector<OpenedRange> ranges_;
  std::map<std::tuple<uint32_t, uint32_t>, Extent> range_extents_;  // by track and range
  std::map<std::tuple<int64_t, int64_t, bool>, uint32_t> tracks_;   // by process, thread and device
  trace::LaunchIndex launches_;
};

}  // namespace epilogue::profile
