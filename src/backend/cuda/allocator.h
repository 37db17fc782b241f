// Device memory for tensors: segments from cudaMalloc, cut into blocks that are kept after a free and handed
// out again, since cudaMalloc and cudaFree stop the device. A block belongs to the stream it was asked for
// on, whose order makes handing it out again at once safe; where other streams used it too, it waits for
// them.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include <cuda_runtime_api.h>

#include "epilogue/memory.h"
#include "epilogue/tensor.h"
#include "tensor/storage.h"

namespace epilogue::cuda {

// While it lives, calls that are no part of what the thread records, as cudaMalloc, do not break it.
class OutsideCapture {
 public:
  OutsideCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~OutsideCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  OutsideCapture(const OutsideCapture&) = delete;
  OutsideCapture& operator=(const OutsideCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

class Allocator;

// A stretch of a segment. Neighbours of one segment are linked, so that free ones can merge.
struct Block {
  char* data = nullptr;
  size_t bytes = 0;
  cudaStream_t stream = nullptr;
  struct Pool* pool = nullptr;
  Block *before = nullptr, *after = nullptr;
  bool allocated = false;             // or given back a moment ago: see Allocator::recent_
  int waiting = 0;                    // events of other streams that must pass before it is free
  std::vector<cudaStream_t> also_on;  // streams other than its own that use it

  bool is_split() const { return before || after; }
};

// Free blocks of one purpose: everybody's, or those that a captured graph writes at every replay.
struct Pool {
  struct Smaller {
    bool operator()(const Block* a, const Block* b) const;
  };
  std::set<Block*, Smaller> small, large;
};

// Any thread may allocate and free. One for each device, for the process's life.
class Allocator {
 public:
  explicit Allocator(int device) : device_(device) {}

  // Ordered on `stream`. Throws Error with the numbers when there is no memory even after the cache was
  // emptied.
  detail::StorageRef allocate(size_t bytes, cudaStream_t stream, Pool* pool);
  Pool* shared_pool() { return &shared_; }
  // A captured graph's pool. When it retires, what is free or becomes free goes to the shared one.
  Pool* make_pool();
  void retire_pool(Pool* pool);

  // Says that work on `stream` uses the storage; nothing where that is its own stream.
  void use_on(const Storage* storage, cudaStream_t stream);
  // The pool a storage's memory is of; null for memory of another origin.
  Pool* pool_of(const Storage* storage) const;

  MemoryStats stats() const;
  void reset_peak();
  void empty_cache();

 private:
  struct Owned;  // the Storage of a block
  void release(Block* block);
  Block* find_free(size_t bytes, cudaStream_t stream, Pool* pool);
  Block* make_segment(size_t bytes, cudaStream_t stream, Pool* pool);
  void split(Block* block, size_t bytes);
  void keep_recent(Block* block);
  void count_recent(const Block* block, int sign);
  Block* take_recent(size_t bytes, cudaStream_t stream, const Pool* pool);
  void free_recent(size_t most = kMostRecent);
  void make_free(Block* block);
  Block* merge(Block* block, Block* neighbour);
  void collect_passed_events(bool wait = false);
  int64_t free_segments();
  [[noreturn]] void fail_out_of_memory(size_t bytes);
  static std::set<Block*, Pool::Smaller>& list_of(Pool* pool, const Block* block);

  const int device_;
  mutable std::mutex mutex_;
  Pool shared_;
  // Blocks given back last, neither merged nor listed yet, the oldest first: a loop asks for the same sizes
  // again, and to cut a block out of its neighbours and merge it again costs as much as the rest of a call.
  static constexpr size_t kMostRecent = 8;
  std::vector<Block*> recent_;
  std::map<Pool*, std::unique_ptr<Pool>> graph_pools_;
  std::map<Pool*, std::unique_ptr<Pool>> retired_;  // blocks in use still point to them
  // What blocks wait for, in the order of the stream. No event: the stream was being captured, and gets one
  // when it no longer is.
  std::map<cudaStream_t, std::vector<std::pair<cudaEvent_t, Block*>>> events_;
  MemoryStats stats_;
};

}  // namespace epilogue::cuda
