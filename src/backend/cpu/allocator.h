// CPU memory for tensors: 64-byte aligned blocks that are kept after a free and handed out again, because
// fresh pages cost more to fault in than a pointwise kernel takes to fill them.
#pragma once

#include <map>
#include <mutex>
#include <vector>

#include "epilogue/memory.h"
#include "epilogue/tensor.h"

namespace epilogue::cpu {

// Any thread may allocate and free.
class Allocator {
 public:
  // Lives for the process: storages may be freed by destructors that run last.
  static Allocator& instance();

  // Throws Error with the numbers when there is no memory even after the cache was emptied.
  detail::StorageRef allocate(size_t bytes);
  MemoryStats stats() const;
  void reset_peak();
  void empty_cache();
  void count_packed_weight(int64_t bytes);  // negative when a packed weight goes

 private:
  struct Block;
  void release(Block* block);
  void* take_cached(size_t capacity);                // with mutex_ held; null when there is none
  void* make_memory(size_t capacity, size_t asked);  // with mutex_ held; `asked` is for the message
  int64_t trim_cache(int64_t keep_bytes);            // with mutex_ held; the bytes it freed

  mutable std::mutex mutex_;
  std::map<size_t, std::vector<void*>> cached_;  // memory for a Block, by capacity
  int64_t cached_bytes_ = 0;
  MemoryStats stats_;
};

}  // namespace epilogue::cpu
