// Where events are recorded: per-thread buffers, no lock on the hot path. The only header of profile/ that
// ops and backends see.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string_view>

#include "epilogue/profiler.h"
#include "epilogue/tensor.h"
#include "epilogue/trace.h"

namespace epilogue::profile {

// Bits of `recording` (declared in profiler.h, where Range reads it inline).
inline constexpr uint32_t kRecordEvents = 1, kRecordShapes = 2, kRecordMemory = 4, kRecordFlops = 8;
inline uint32_t recording_now() { return recording.load(std::memory_order_relaxed); }

// Opens an event on this thread; null when the buffer is full (counted as dropped). `name` is copied.
Slot* open_event(trace::EventKind kind, std::string_view name);
// The rest takes a slot that open_event gave this thread, until close_event; null is ignored. A slot outlives
// its window: one closed too late is simply not seen.
void close_event(Slot* slot);
void set_inputs(Slot* slot, std::span<const Tensor> inputs);  // a cpu_op's: dims, strides and types
void set_name(Slot* slot, std::string_view name);  // once the name is known: a kernel's, after it was chosen
void set_work(Slot* slot, int64_t flops, int64_t bytes, int threads);  // a cpu_kernel's
// An allocation (bytes > 0) or a free (bytes < 0) and the totals after it; nothing without kRecordMemory.
void record_memory(Device device, const void* address, int64_t bytes, int64_t total_allocated,
                   int64_t total_reserved);

// Told by whoever hands out a device's backend: windows that open from then on record the device's work too.
extern std::atomic<bool> device_in_use;
inline void expect_device_work() {
  if (!device_in_use.load(std::memory_order_relaxed)) device_in_use.store(true, std::memory_order_relaxed);
}

// An event for as long as the scope lives. Costs one load and a branch while nothing records.
class Scope {
 public:
  Scope(trace::EventKind kind, std::string_view name) {
    if (recording_now() != 0) [[unlikely]]
      slot_ = open_event(kind, name);
  }
  ~Scope() {
    if (slot_) close_event(slot_);
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  Slot* slot() const { return slot_; }

 private:
  Slot* slot_ = nullptr;
};

// An op's event, with its inputs where shapes are recorded.
class OpScope : public Scope {
 public:
  OpScope(const char* name, std::span<const Tensor> inputs) : Scope(trace::EventKind::cpu_op, name) {
    if (slot() && (recording_now() & kRecordShapes)) set_inputs(slot(), inputs);
  }
};

}  // namespace epilogue::profile
