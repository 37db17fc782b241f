#include "profile/event.h"

#include <new>

#include "profile/buffer.h"
#include "profile/inputs.h"

namespace epilogue::profile {

std::atomic<uint32_t> recording{0};

namespace {

// Calls make(this thread's buffer) to describe an event. Without memory the event stays, less told.
template <class Make>
void describe(Make make) {
  ThreadBuffer* buffer = this_thread_buffer();
  if (!buffer) return;
  try {
    make(*buffer);
  } catch (const std::bad_alloc&) {
  }
}

template <class Detail>
void attach_detail(Slot* slot, const Detail& detail) {
  describe([&](ThreadBuffer& buffer) {
    slot->detail.store(new (buffer.allocate(sizeof(Detail))) Detail(detail), std::memory_order_release);
  });
}

}  // namespace

Slot* open_event(trace::EventKind kind, std::string_view name) {
  ThreadBuffer* buffer = this_thread_buffer();
  return buffer ? buffer->open(kind, name) : nullptr;
}

void close_event(Slot* slot) {
  if (slot) ThreadBuffer::close(slot);
}

void set_inputs(Slot* slot, std::span<const Tensor> inputs) {
  if (!slot || slot->kind != trace::EventKind::cpu_op) return;
  describe([&](ThreadBuffer& buffer) {
    auto* words = static_cast<int64_t*>(buffer.allocate(encoded_words(inputs) * sizeof(int64_t)));
    encode_inputs(inputs, words);
    slot->detail.store(words, std::memory_order_release);
  });
}

void set_name(Slot* slot, std::string_view name) {
  if (!slot) return;
  describe(
      [&](ThreadBuffer& buffer) { slot->name.store(buffer.copy_text(name), std::memory_order_release); });
}

void set_work(Slot* slot, int64_t flops, int64_t bytes, int threads) {
  if (!slot || slot->kind != trace::EventKind::cpu_kernel) return;
  attach_detail(slot, trace::Work{.flops = flops, .bytes = bytes, .threads = threads});
}

void record_memory(Device device, const void* address, int64_t bytes, int64_t total_allocated,
                   int64_t total_reserved) {
  if ((recording_now() & kRecordMemory) == 0) return;
  Slot* slot = open_event(trace::EventKind::memory, "[memory]");
  if (!slot) return;
  attach_detail(slot, trace::Memory{.bytes = bytes,
                                    .total_allocated = total_allocated,
                                    .total_reserved = total_reserved,
                                    .address = reinterpret_cast<uint64_t>(address),
                                    .device_type = device.type == DeviceType::cuda ? 1 : 0,
                                    .device_index = device.index});
  close_event(slot);
}

}  // namespace epilogue::profile

namespace epilogue {

void Range::begin(std::string_view name) {
  event_ = profile::open_event(trace::EventKind::user_annotation, name);
}

void Range::end() { profile::close_event(event_); }

}  // namespace epilogue
