// The profiler: what ran, for how long, on which thread, with which shapes and memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "epilogue/trace.h"

namespace epilogue {

namespace profile {
struct Slot;
extern std::atomic<uint32_t> recording;  // what is recorded now, as bits; 0: nothing
}  // namespace profile

// A named stretch of the caller's code (PyTorch's record_function). Costs about a nanosecond while no
// profiler records. Must end on the thread that began it. One that is open when a window ends is cut there;
// one that began before the window is not in it.
class Range {
 public:
  explicit Range(std::string_view name) {
    if (profile::recording.load(std::memory_order_relaxed) != 0) [[unlikely]]
      begin(name);
  }
  ~Range() {
    if (event_) [[unlikely]]
      end();
  }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

 private:
  void begin(std::string_view name);
  void end();
  profile::Slot* event_ = nullptr;  // null while nothing records
};

enum class ProfilerAction : uint8_t { none, warmup, record, record_and_save };

// torch.profiler.schedule: skip_first steps once, then cycles of wait, warmup and active steps; repeat 0 is
// forever.
struct Schedule {
  int wait = 0, warmup = 0, active = 1, repeat = 0, skip_first = 0;
  ProfilerAction action(int64_t step) const;
};

// One row of key_averages(): times in microseconds, as PyTorch's columns.
struct OpStats {
  std::string name;
  std::string shapes;  // "[[64, 768], [3072, 768]]" when grouped by shape
  int64_t calls = 0;
  double self_cpu_us = 0, cpu_total_us = 0;
  double self_device_us = 0, device_total_us = 0;
  int64_t cpu_memory = 0, self_cpu_memory = 0;  // bytes allocated less bytes freed
  int64_t device_memory = 0, self_device_memory = 0;
  int64_t flops = 0;
  int64_t bytes = 0;           // moved by its CPU kernels
  bool is_kernel = false;      // the row of a device's kernel, copy or range
  bool is_annotation = false;  // of a range (record_function, ProfilerStep*)
};

struct TableOptions {
  std::string sort_by =
      "self_cpu_time_total";  // PyTorch's keys: cpu_time_total, self_cuda_time_total, count, ...
  int rows = 100;
  double peak_gflops = 0;  // when known, FLOP/s are shown as a share of it
};

struct KeyAverages {
  std::vector<OpStats> rows;
  bool has_shapes = false, has_device = false, has_memory = false, has_flops = false;
  int64_t dropped = 0;
  // PyTorch's table, to the column; a last line tells of dropped events, if any.
  std::string table(const TableOptions& options = {}) const;
};

struct ProfilerOptions {
  std::optional<Schedule> schedule = {};  // without one, everything between start() and stop()
  bool record_shapes = false;
  bool profile_memory = false;
  bool with_flops = false;
  size_t max_events_per_thread = size_t{1} << 20;  // past it events are dropped, counted and shown
  // Called by step() or stop() when a window is complete, while nothing records. What it throws comes out of
  // them, after the profiler has moved on to its next step.
  std::function<void(class Profiler&)> on_trace_ready = {};
};

// One may run at a time; start() throws Error while another does. start, step and stop are called from one
// thread; the events come from all. step and stop throw Error unless it runs. With a schedule each recorded
// step is a range "ProfilerStep#N", N counted from start().
class Profiler {
 public:
  explicit Profiler(ProfilerOptions options = {});
  ~Profiler();  // stops, without calling on_trace_ready
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  void start();
  void step();
  void stop();

  // The last complete window; Error while there is none.
  const trace::Trace& trace() const;
  KeyAverages key_averages(bool group_by_shape = false) const;
  void export_chrome_trace(const std::string& path) const;  // Kineto's JSON, gzip for ".gz"
  int64_t dropped() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace epilogue
