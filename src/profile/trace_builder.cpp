#include "profile/trace_builder.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <unistd.h>

#include <fmt/format.h>

#include "profile/event.h"
#include "profile/inputs.h"
#include "trace/links.h"

namespace epilogue::profile {

using trace::EventKind;

TraceBuilder::TraceBuilder(uint32_t flags, const ClockReading& begin, const ClockReading& end)
    : flags_(flags), begin_ticks_(begin.ticks), end_ticks_(end.ticks), ns_per_tick_(ns_per_tick(begin, end)) {
  trace_.source = fmt::format("epilogue, process {}", getpid());
  trace_.base_ns = begin.unix_ns;
}

int64_t TraceBuilder::to_ns(uint64_t ticks) const {
  return ticks <= begin_ticks_ ? 0 : std::llround(static_cast<double>(ticks - begin_ticks_) * ns_per_tick_);
}

void TraceBuilder::add_thread(const ThreadBuffer& buffer, const std::string& name) {
  const std::string label = fmt::format("thread {} ({})", buffer.thread_id(), name);
  trace_.tracks.push_back({.process = getpid(),
                           .thread = buffer.thread_id(),
                           .device = false,
                           .name = trace_.strings.intern(label)});
  dropped_ += buffer.dropped();
  open_.clear();
  if (const auto calls = calls_of_.extract(buffer.thread_id())) calls_ = std::move(calls.mapped());
  buffer.visit([this](const Slot& slot) { add_slot(slot); });
  add_calls_before(UINT64_MAX);
}

void TraceBuilder::add_slot(const Slot& slot) {
  if (slot.start > end_ticks_) return;  // of a thread that had not yet seen the end
  add_calls_before(slot.start);
  const uint64_t closed = slot.end.load(std::memory_order_acquire);
  if (slot.kind == EventKind::memory && !slot.detail.load(std::memory_order_acquire)) {
    dropped_ += closed != 0;  // otherwise it was being written when the window ended
    return;
  }
  const bool cut = closed == 0 || closed > end_ticks_;
  if (cut && slot.kind == EventKind::cpu_op) ++cut_ops_;
  const int64_t start_ns = to_ns(slot.start);
  const bool instant = slot.kind == EventKind::memory;
  const uint64_t end_ticks = cut ? end_ticks_ : closed;
  const int64_t end_ns = instant ? start_ns : to_ns(end_ticks);
  const trace::StringId name = trace_.strings.intern(slot.name.load(std::memory_order_acquire)->view());
  trace_.events.push_back({.start_ns = start_ns,
                           .duration_ns = std::max<int64_t>(end_ns - start_ns, 0),
                           .external_id = external_id(slot, end_ticks, name),
                           .name = name,
                           .track = static_cast<uint32_t>(trace_.tracks.size() - 1),
                           .detail = detail(slot),
                           .kind = slot.kind});
}

// A kernel bears the number of the op that it runs in. Slots come in the order they were opened.
uint64_t TraceBuilder::external_id(const Slot& slot, uint64_t end_ticks, trace::StringId name) {
  if (slot.kind == EventKind::memory) return 0;
  while (!open_.empty() && open_.back().end_ticks <= slot.start) open_.pop_back();
  if (slot.kind == EventKind::cpu_kernel)
    if (const uint64_t op = innermost_op(slot.start)) return op;
  if (slot.kind == EventKind::cpu_op) open_.push_back({end_ticks, next_id_, kNoRange});
  if (slot.kind == EventKind::user_annotation && has_device_) {
    ranges_.push_back({end_ticks, next_id_, name, innermost_range(slot.start)});
    open_.push_back({end_ticks, next_id_, static_cast<uint32_t>(ranges_.size() - 1)});
  }
  return next_id_++;
}

// Ranges need not nest, so that one which has ended may lie below one which has not.
uint64_t TraceBuilder::innermost_op(uint64_t ticks) const {
  for (auto at = open_.rbegin(); at != open_.rend(); ++at)
    if (at->range == kNoRange && at->end_ticks > ticks) return at->id;
  return 0;
}

uint32_t TraceBuilder::innermost_range(uint64_t ticks) const {
  for (auto at = open_.rbegin(); at != open_.rend(); ++at)
    if (at->range != kNoRange && at->end_ticks > ticks) return at->range;
  return kNoRange;
}

uint32_t TraceBuilder::detail(const Slot& slot) {
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

uint32_t TraceBuilder::inputs_index(const int64_t* words) {
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

uint32_t TraceBuilder::work_index(trace::Work work) {
  if ((flags_ & kRecordFlops) == 0) work.flops = 0;
  const auto [at, added] =
      work_.try_emplace({work.flops, work.bytes, work.threads}, static_cast<uint32_t>(trace_.work.size()));
  if (added) trace_.work.push_back(work);
  return at->second;
}

WindowResult TraceBuilder::finish() {
  add_calls_of_other_threads();
  add_device_events();
  std::ranges::stable_sort(trace_.events, [](const trace::Event& a, const trace::Event& b) {
    return a.start_ns != b.start_ns ? a.start_ns < b.start_ns : a.duration_ns > b.duration_ns;
  });
  for (const auto& [bit, key] : {std::pair{kRecordShapes, "record_shapes"},
                                 {kRecordMemory, "profile_memory"},
                                 {kRecordFlops, "with_flops"}})
    if (flags_ & bit) trace_.metadata.emplace_back(key, "1");
  if (dropped_ > 0) trace_.problems.push_back({"events dropped, a thread's buffer was full", dropped_});
  if (cut_ops_ > 0) trace_.problems.push_back({"ops cut, they ran when the window ended", cut_ops_});
  if (has_device_) trace::count_broken_links(trace_);
  return {std::move(trace_), dropped_ + device_.dropped};
}

}  // namespace epilogue::profile
