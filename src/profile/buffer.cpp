#include "profile/buffer.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <new>

#include <unistd.h>

#include "profile/clock.h"

namespace epilogue::profile {

std::atomic<uint64_t> window_generation{0};
std::atomic<uint64_t> window_limit{0};

ThreadBuffer::ThreadBuffer() : thread_(pthread_self()), thread_id_(gettid()) {}

// A chunk with a slot still open is not used again until it is closed, so that a late end writes to a slot
// that nobody reads.
void ThreadBuffer::empty_for(uint64_t generation) {
  first_.store(nullptr, std::memory_order_relaxed);
  last_ = free_ = nullptr;
  for (const auto& chunk : chunks_) {
    if (chunk->open != 0) continue;
    chunk->next.store(free_, std::memory_order_relaxed);
    free_ = chunk.get();
  }
  arena_.release();
  recorded_ = 0;
  limit_ = window_limit.load(std::memory_order_relaxed);
  dropped_.store(0, std::memory_order_relaxed);
  generation_.store(generation, std::memory_order_release);
}

Chunk* ThreadBuffer::add_chunk() {
  Chunk* chunk = free_;
  if (chunk) {
    free_ = chunk->next.load(std::memory_order_relaxed);
  } else {
    chunk = chunks_.emplace_back(std::make_unique<Chunk>()).get();
  }
  chunk->published.store(0, std::memory_order_relaxed);
  chunk->next.store(nullptr, std::memory_order_relaxed);
  (last_ ? last_->next : first_).store(chunk, std::memory_order_release);
  return last_ = chunk;
}

const Text* ThreadBuffer::copy_text(std::string_view text) {
  auto* copy = static_cast<Text*>(allocate(sizeof(Text) + text.size()));
  copy->size = static_cast<uint32_t>(text.size());
  std::memcpy(copy + 1, text.data(), text.size());
  return copy;
}

Slot* ThreadBuffer::drop() {
  dropped_.store(dropped() + 1, std::memory_order_relaxed);
  return nullptr;
}

Slot* ThreadBuffer::open(trace::EventKind kind, std::string_view name) try {
  const uint64_t generation = window_generation.load(std::memory_order_acquire);
  if (generation != generation_.load(std::memory_order_relaxed)) [[unlikely]]
    empty_for(generation);
  if (recorded_ == limit_) [[unlikely]]
    return drop();
  const Text* text = copy_text(name);
  Chunk* chunk = last_;
  uint32_t used = chunk ? chunk->published.load(std::memory_order_relaxed) : Chunk::kSlots;
  if (used == Chunk::kSlots) [[unlikely]] {
    chunk = add_chunk();
    used = 0;
  }
  Slot& slot = chunk->slots[used];
  slot.kind = kind;
  slot.chunk = chunk;
  slot.name.store(text, std::memory_order_relaxed);
  slot.detail.store(nullptr, std::memory_order_relaxed);
  slot.end.store(0, std::memory_order_relaxed);
  slot.start = ticks_now();
  ++recorded_;
  ++chunk->open;
  chunk->published.store(used + 1, std::memory_order_release);
  return &slot;
} catch (const std::bad_alloc&) {
  return drop();
}

void ThreadBuffer::close(Slot* slot) {
  slot->end.store(ticks_now(), std::memory_order_release);
  --slot->chunk->open;
}

void ThreadBuffer::visit(const std::function<void(const Slot&)>& each) const {
  for (const Chunk* chunk = first_.load(std::memory_order_acquire); chunk;
       chunk = chunk->next.load(std::memory_order_acquire)) {
    const uint32_t published = chunk->published.load(std::memory_order_acquire);
    for (uint32_t i = 0; i < published; ++i) each(chunk->slots[i]);
  }
}

class BufferRegistry {
 public:
  ThreadBuffer* add() {
    const std::lock_guard lock(mutex_);
    return buffers_.emplace_back(std::make_unique<ThreadBuffer>()).get();
  }

  void thread_ends(ThreadBuffer* buffer) {
    const std::lock_guard lock(mutex_);
    buffer->name_ = thread_name(pthread_self());
    buffer->ended_ = true;
    // Another thread_local's destructor may still close an event that is open now: then it stays for good.
    buffer->keep_ = std::ranges::any_of(buffer->chunks_, [](const auto& chunk) { return chunk->open != 0; });
  }

  // A thread cannot end while the lock is held, so its handle is good for its name.
  void collect(uint64_t generation,
               const std::function<void(const ThreadBuffer&, const std::string&)>& each) {
    const std::lock_guard lock(mutex_);
    for (const auto& buffer : buffers_) {
      if (buffer->generation() == generation)
        each(*buffer, buffer->ended_ ? buffer->name_ : thread_name(buffer->thread_));
    }
    std::erase_if(buffers_, [](const auto& buffer) { return buffer->ended_ && !buffer->keep_; });
  }

 private:
  static std::string thread_name(pthread_t thread) {
    char name[32] = "";
    return pthread_getname_np(thread, name, sizeof(name)) == 0 ? name : "";
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<ThreadBuffer>> buffers_;
};

namespace {

// Never destroyed: threads may end after the library's statics are gone.
BufferRegistry& registry() {
  static auto* const instance = new BufferRegistry;
  return *instance;
}

// The initial-exec model spares a call into the dynamic linker per event.
__attribute__((tls_model("initial-exec"))) thread_local ThreadBuffer* this_buffer = nullptr;
__attribute__((tls_model("initial-exec"))) thread_local bool thread_ended = false;

struct ThreadEnd {
  ~ThreadEnd() {
    registry().thread_ends(this_buffer);
    this_buffer = nullptr;
    thread_ended = true;
  }
};

__attribute__((noinline)) ThreadBuffer* make_this_thread_buffer() {
  if (thread_ended) return nullptr;
  this_buffer = registry().add();
  static thread_local const ThreadEnd at_end;
  return this_buffer;
}

}  // namespace

ThreadBuffer* this_thread_buffer() {
  if (this_buffer) [[likely]]
    return this_buffer;
  return make_this_thread_buffer();
}

void collect_buffers(uint64_t generation,
                     const std::function<void(const ThreadBuffer&, const std::string&)>& each) {
  registry().collect(generation, each);
}

}  // namespace epilogue::profile
