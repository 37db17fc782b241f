#include "backend/cpu/allocator.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <new>

#include <sys/mman.h>

#include "base/check.h"
#include "base/format.h"
#include "profile/event.h"
#include "tensor/storage.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define EP_POISON(address, bytes) ASAN_POISON_MEMORY_REGION(address, bytes)
#define EP_UNPOISON(address, bytes) ASAN_UNPOISON_MEMORY_REGION(address, bytes)
#else
#define EP_POISON(address, bytes) ((void)0)
#define EP_UNPOISON(address, bytes) ((void)0)
#endif

namespace epilogue::cpu {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr int64_t kCacheFloor = int64_t{256} << 20;  // this much may always stay cached

// Four sizes per power of two: at most a quarter of a block is wasted, and near sizes share blocks.
size_t capacity_for(size_t bytes) {
  const size_t least = std::max(bytes, kAlignment);
  const size_t step = std::max(std::bit_floor(least) / 4, kAlignment);
  return (least + step - 1) / step * step;
}

}  // namespace

// The storage's header stands in the same allocation, before the data.
struct alignas(kAlignment) Allocator::Block : Storage {
  size_t capacity = 0;
};

Allocator& Allocator::instance() {
  static auto* allocator = new Allocator;
  return *allocator;
}

detail::StorageRef Allocator::allocate(size_t bytes) {
  EP_CHECK(bytes < (size_t{1} << 60), "out of memory: {} bytes were asked for", bytes);
  const size_t capacity = capacity_for(bytes);
  void* memory = nullptr;
  int64_t allocated = 0, reserved = 0;
  {
    const std::lock_guard lock(mutex_);
    memory = take_cached(capacity);
    if (!memory) memory = make_memory(capacity, bytes);
    stats_.allocated += static_cast<int64_t>(capacity);
    stats_.peak_allocated = std::max(stats_.peak_allocated, stats_.allocated);
    ++stats_.allocations;
    allocated = stats_.allocated;
    reserved = stats_.reserved;
  }
  auto* block = new (memory) Block;
  block->capacity = capacity;
  block->data = static_cast<std::byte*>(memory) + sizeof(Block);
  block->bytes = bytes;
  block->release = [](Storage* storage) { instance().release(static_cast<Block*>(storage)); };
  EP_UNPOISON(block->data, bytes);
  if (profile::recording_now() & profile::kRecordMemory) [[unlikely]]
    profile::record_memory({}, block->data, static_cast<int64_t>(capacity), allocated, reserved);
  return detail::StorageRef(block);
}

void* Allocator::take_cached(size_t capacity) {
  const auto list = cached_.find(capacity);
  if (list == cached_.end() || list->second.empty()) return nullptr;
  void* memory = list->second.back();
  list->second.pop_back();
  cached_bytes_ -= static_cast<int64_t>(capacity);
  return memory;
}

void* Allocator::make_memory(size_t capacity, size_t asked) {
  const size_t total = sizeof(Block) + capacity;
  const size_t alignment = total >= 2 * kHugePage ? kHugePage : kAlignment;
  const size_t rounded = (total + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, rounded);
  if (!memory && trim_cache(0) > 0) memory = std::aligned_alloc(alignment, rounded);
  EP_CHECK(memory, "out of memory: {} were asked for; {} are allocated, {} reserved",
           format_bytes(static_cast<int64_t>(asked)), format_bytes(stats_.allocated),
           format_bytes(stats_.reserved));
  if (alignment == kHugePage)
    madvise(memory, rounded, MADV_HUGEPAGE);  // advice: nothing is lost if it is not taken
  stats_.reserved += static_cast<int64_t>(capacity);
  stats_.peak_reserved = std::max(stats_.peak_reserved, stats_.reserved);
  return memory;
}

void Allocator::release(Block* block) {
  const size_t capacity = block->capacity;
  void* data = block->data;
  block->~Block();  // before the lock: what was derived from it frees memory of its own
  EP_POISON(data, capacity);
  int64_t allocated = 0, reserved = 0;
  {
    const std::lock_guard lock(mutex_);
    stats_.allocated -= static_cast<int64_t>(capacity);
    ++stats_.frees;
    cached_[capacity].push_back(block);
    cached_bytes_ += static_cast<int64_t>(capacity);
    // What is cached stays below what was once in use, so a run of odd sizes does not pile up.
    if (cached_bytes_ > std::max(stats_.peak_allocated, kCacheFloor)) trim_cache(cached_bytes_ / 2);
    allocated = stats_.allocated;
    reserved = stats_.reserved;
  }
  if (profile::recording_now() & profile::kRecordMemory) [[unlikely]]
    profile::record_memory({}, data, -static_cast<int64_t>(capacity), allocated, reserved);
}

int64_t Allocator::trim_cache(int64_t keep_bytes) {
  const int64_t before = cached_bytes_;
  for (auto list = cached_.rbegin(); list != cached_.rend(); ++list) {  // the largest first
    auto& [capacity, blocks] = *list;
    while (!blocks.empty() && cached_bytes_ > keep_bytes) {
      void* memory = blocks.back();
      blocks.pop_back();
      cached_bytes_ -= static_cast<int64_t>(capacity);
      stats_.reserved -= static_cast<int64_t>(capacity);
      EP_UNPOISON(static_cast<std::byte*>(memory) + sizeof(Block), capacity);
      std::free(memory);
    }
  }
  return before - cached_bytes_;
}

void Allocator::empty_cache() {
  const std::lock_guard lock(mutex_);
  trim_cache(0);
}

MemoryStats Allocator::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void Allocator::reset_peak() {
  const std::lock_guard lock(mutex_);
  stats_.peak_allocated = stats_.allocated;
  stats_.peak_reserved = stats_.reserved;
}

void Allocator::count_packed_weight(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  stats_.packed_weights += bytes;
}

}  // namespace epilogue::cpu
