#include "profile/window.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include <unistd.h>

#include <fmt/format.h>

#include "profile/buffer.h"
#include "profile/event.h"
#include "profile/inputs.h"

namespace epilogue::profile {
namespace {

using trace::EventKind;

// Makes the events of the buffers one trace.
class TraceBuilder {
 public:
  TraceBuilder(uint32_t flags, const ClockReading& begin, const ClockReading& end)
      : flags_(flags),
        begin_ticks_(begin.ticks),
        end_ticks_(end.ticks),
        ns_per_tick_(ns_per_tick(begin, end)) {
    trace_.source = fmt::format("epilogue, process {}", getpid());
    trace_.base_ns = begin.unix_ns;
  }

  void add_thread(const ThreadBuffer& buffer, const std::string& name) {
    const std::string label = fmt::format("thread {} ({})", buffer.thread_id(), name);
    trace_.tracks.push_back({.process = getpid(),
                             .thread = buffer.thread_id(),
                             .device = false,
                             .name = trace_.strings.intern(label)});
    dropped_ += buffer.dropped();
    open_ops_.clear();
    buffer.visit([this](const Slot& slot) { add_event(slot); });
  }

  WindowResult finish() {
    std::ranges::stable_sort(trace_.events, [](const trace::Event& a, const trace::Event& b) {
      return a.start_ns != b.start_ns ? a.start_ns < b.start_ns : a.duration_ns > b.duration_ns;
    });
    for (const auto& [bit, key] : {std::pair{kRecordShapes, "record_shapes"},
                                   {kRecordMemory, "profile_memory"},
                                   {kRecordFlops, "with_flops"}})
      if (flags_ & bit) trace_.metadata.emplace_back(key, "1");
    if (dropped_ > 0) trace_.problems.push_back({"events dropped, a thread's buffer was full", dropped_});
    if (cut_ops_ > 0) trace_.problems.push_back({"ops cut, they ran when the window ended", cut_ops_});
    return {std::move(trace_), dropped_};
  }

 private:
  int64_t to_ns(uint64_t ticks) const {
    return ticks <= begin_ticks_ ? 0 : std::llround(static_cast<double>(ticks - begin_ticks_) * ns_per_tick_);
  }

  void add_event(const Slot& slot) {
    if (slot.start > end_ticks_) return;  // of a thread that had not yet seen the end
    const uint64_t closed = slot.end.load(std::memory_order_acquire);
    if (slot.kind == EventKind::memory && !slot.detail.load(std::memory_order_acquire)) {
      dropped_ += closed != 0;  // otherwise it was being written when the window ended
      return;
    }
    const bool cut = closed == 0 || closed > end_ticks_;
    if (cut && slot.kind == EventKind::cpu_op) ++cut_ops_;
    const int64_t start_ns = to_ns(slot.start);
    const bool instant = slot.kind == EventKind::memory;
    const int64_t end_ns = instant ? start_ns : to_ns(cut ? end_ticks_ : closed);
    trace_.events.push_back({.start_ns = start_ns,
                             .duration_ns = std::max<int64_t>(end_ns - start_ns, 0),
                             .external_id = external_id(slot, cut ? end_ticks_ : closed),
                             .name = trace_.strings.intern(slot.name.load(std::memory_order_acquire)->view()),
                             .track = static_cast<uint32_t>(trace_.tracks.size() - 1),
                             .detail = detail(slot),
                             .kind = slot.kind});
  }

  // A kernel bears the number of the op that it runs in. Slots come in the order they were opened.
  uint64_t external_id(const Slot& slot, uint64_t end_ticks) {
    if (slot.kind == EventKind::memory) return 0;
    while (!open_ops_.empty() && open_ops_.back().end_ticks <= slot.start) open_ops_.pop_back();
    if (slot.kind == EventKind::cpu_kernel && !open_ops_.empty()) return open_ops_.back().id;
    if (slot.kind == EventKind::cpu_op) open_ops_.push_back({end_ticks, next_id_});
    return next_id_++;
  }

  uint32_t detail(const Slot& slot) {
    const void* data = slot.detail.load(std::memory_order_acquire);
    if (!data) return trace::kNoDetail;
    switch (slot.kind) {
      case EventKind::cpu_op:
        return inputs_index(static_cast<const int64_t*>(data));
      case EventKind::cpu_kernel:
        return work_index(*static_cast<const trace::Work*>(data));
      case EventKind::memory:
        trace_.memories.push_back(*static_cast<const trace::Memory*>(data));
        return static_cast<uint32_t>(trace_.memories.size() - 1);
      default:
        return trace::kNoDetail;
    }
  }

  uint32_t inputs_index(const int64_t* words) {
    const std::string_view bytes(reinterpret_cast<const char*>(words),
                                 static_cast<size_t>(words[0]) * sizeof(int64_t));
    const auto [at, added] = inputs_.try_emplace(bytes, static_cast<uint32_t>(trace_.op_inputs.size()));
    if (added) {
      const InputTexts texts = decode_inputs(words);
      trace_.op_inputs.push_back({.dims = trace_.strings.intern(texts.dims),
                                  .types = trace_.strings.intern(texts.types),
                                  .strides = trace_.strings.intern(texts.strides)});
    }
    return at->second;
  }

  uint32_t work_index(trace::Work work) {
    if ((flags_ & kRecordFlops) == 0) work.flops = 0;
    const auto [at, added] =
        work_.try_emplace({work.flops, work.bytes, work.threads}, static_cast<uint32_t>(trace_.work.size()));
    if (added) trace_.work.push_back(work);
    return at->second;
  }

  struct OpenOp {
    uint64_t end_ticks;
    uint64_t id;
  };

  const uint32_t flags_;
  const uint64_t begin_ticks_, end_ticks_;
  const double ns_per_tick_;
  trace::Trace trace_;
  std::vector<OpenOp> open_ops_;
  std::unordered_map<std::string_view, uint32_t> inputs_;  // encoded, into trace_.op_inputs
  std::map<std::tuple<int64_t, int64_t, int32_t>, uint32_t> work_;
  uint64_t next_id_ = 1;
  int64_t dropped_ = 0, cut_ops_ = 0;
};

uint32_t recording_flags(const ProfilerOptions& options) {
  return kRecordEvents | (options.record_shapes ? kRecordShapes : 0) |
         (options.profile_memory ? kRecordMemory : 0) | (options.with_flops ? kRecordFlops : 0);
}

uint64_t next_generation(uint64_t max_events_per_thread) {
  window_limit.store(max_events_per_thread, std::memory_order_relaxed);
  return window_generation.fetch_add(1, std::memory_order_release) + 1;
}

}  // namespace

Window::Window(const ProfilerOptions& options)
    : flags_(recording_flags(options)),
      begin_(read_clocks()),
      generation_(next_generation(options.max_events_per_thread)) {
  recording.store(flags_, std::memory_order_release);
}

Window::~Window() { recording.store(0, std::memory_order_release); }

WindowResult Window::finish() {
  recording.store(0, std::memory_order_release);
  TraceBuilder builder(flags_, begin_, read_clocks());
  collect_buffers(generation_, [&](const ThreadBuffer& buffer, const std::string& thread_name) {
    builder.add_thread(buffer, thread_name);
  });
  return builder.finish();
}

}  // namespace epilogue::profile
