// The events of one thread. The thread that owns a buffer is the only one that writes it, and publishes with
// release stores; a collector reads with acquire loads while the owner may still be writing.
//
// Windows are numbered. Opening one only raises `window_generation`: each thread empties its own buffer at
// its first event of the new window, and a collector skips buffers that still hold an older one. So nobody
// ever touches what another thread may be using.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <memory_resource>
#include <string>
#include <string_view>
#include <vector>

#include <pthread.h>

#include "epilogue/trace.h"

namespace epilogue::profile {

struct Chunk;

// Text in a buffer's arena: a size, then that many bytes.
struct Text {
  uint32_t size;
  std::string_view view() const { return {reinterpret_cast<const char*>(this + 1), size}; }
};

// `start`, `kind` and `name` are there once the slot is published. `name` and `detail` may be replaced until
// the event is closed.
struct Slot {
  uint64_t start;             // ticks
  std::atomic<uint64_t> end;  // ticks; 0 while open
  std::atomic<const Text*> name;
  std::atomic<const void*> detail;  // by kind: encoded inputs (inputs.h), trace::Work, trace::Memory, or null
  Chunk* chunk;
  trace::EventKind kind;
};

struct Chunk {
  static constexpr uint32_t kSlots = 512;
  std::atomic<uint32_t> published{0};
  std::atomic<Chunk*> next{nullptr};
  uint32_t open = 0;  // slots not closed yet; the owner's alone
  Slot slots[kSlots];
};

extern std::atomic<uint64_t> window_generation;  // 0: no window yet
extern std::atomic<uint64_t> window_limit;       // events per thread

class ThreadBuffer {
 public:
  ThreadBuffer();
  ThreadBuffer(const ThreadBuffer&) = delete;
  ThreadBuffer& operator=(const ThreadBuffer&) = delete;

  // For the owner. Null when the window's limit is reached or memory is out: counted as dropped.
  Slot* open(trace::EventKind kind, std::string_view name);
  static void close(Slot* slot);
  const Text* copy_text(std::string_view text);                                     // throws std::bad_alloc
  void* allocate(size_t bytes) { return arena_.allocate(bytes, sizeof(int64_t)); }  // likewise

  // For a collector, while no newer window is open.
  uint64_t generation() const { return generation_.load(std::memory_order_acquire); }
  int64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }
  void visit(const std::function<void(const Slot&)>& each) const;  // in the order they were opened
  int64_t thread_id() const { return thread_id_; }

 private:
  friend class BufferRegistry;
  void empty_for(uint64_t generation);
  Chunk* add_chunk();
  Slot* drop();

  std::atomic<uint64_t> generation_{0};
  std::atomic<Chunk*> first_{nullptr};
  std::atomic<int64_t> dropped_{0};
  Chunk* last_ = nullptr;
  Chunk* free_ = nullptr;
  uint64_t recorded_ = 0, limit_ = 0;
  std::vector<std::unique_ptr<Chunk>> chunks_;  // all, for the thread's life
  std::pmr::monotonic_buffer_resource arena_{size_t{64} << 10};
  const pthread_t thread_;
  const int64_t thread_id_;
  // Below: under the registry's lock.
  bool ended_ = false, keep_ = false;
  std::string name_;  // once the thread has ended
};

// The calling thread's buffer, made at the first call; null while the thread is being torn down.
ThreadBuffer* this_thread_buffer();

// Calls `each(buffer, thread name)` for every buffer that holds `generation`, then frees the buffers of
// threads that have ended.
void collect_buffers(uint64_t generation,
                     const std::function<void(const ThreadBuffer&, const std::string&)>& each);

}  // namespace epilogue::profile
