#include "backend/cuda/allocator.h"

#include <algorithm>

#include "backend/cuda/check.h"
#include "base/check.h"
#include "base/format.h"
#include "profile/event.h"

namespace epilogue::cuda {
namespace {

// PyTorch's figures: requests up to 1 MB share segments of 2 MB, those up to 10 MB segments of 20 MB.
constexpr size_t kGranule = 512, kSmall = size_t{1} << 20, kSmallSegment = size_t{2} << 20;
constexpr size_t kMedium = size_t{10} << 20, kMediumSegment = size_t{20} << 20,
                 kSegmentGranule = size_t{2} << 20;

size_t round_up(size_t bytes, size_t granule) { return (bytes + granule - 1) / granule * granule; }

size_t segment_bytes(size_t bytes) {
  return bytes <= kSmall    ? kSmallSegment
         : bytes <= kMedium ? kMediumSegment
                            : round_up(bytes, kSegmentGranule);
}

// The calling thread's device for as long as it lives: the last of a tensor may be let go of where another
// is.
class OnDevice {
 public:
  explicit OnDevice(int device) {
    if (cudaGetDevice(&before_) != cudaSuccess || before_ == device) return;
    changed_ = cudaSetDevice(device) == cudaSuccess;
  }
  ~OnDevice() {
    if (changed_) cudaSetDevice(before_);
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  int before_ = 0;
  bool changed_ = false;
};

// Null while the stream is being captured: an event would become part of that graph.
cudaEvent_t recorded_event(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaEvent_t event = nullptr;
  if (cudaStreamIsCapturing(stream, &status) == cudaSuccess && status == cudaStreamCaptureStatusNone &&
      cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess) {
    if (cudaEventRecord(event, stream) == cudaSuccess) return event;
    cudaEventDestroy(event);
  }
  (void)cudaGetLastError();
  return nullptr;
}

// What is worth splitting off a block.
size_t least_rest(bool small) { return small ? kGranule : kSmall + 1; }

}  // namespace

struct Allocator::Owned : Storage {
  Allocator* allocator = nullptr;
  Block* block = nullptr;

  static void give_back(Storage* storage) {
    const std::unique_ptr<Owned> owned(static_cast<Owned*>(storage));
    if (owned->block) owned->allocator->release(owned->block);
  }
  static const Owned* of(const Storage* storage) {
    return storage->release == give_back ? static_cast<const Owned*>(storage) : nullptr;
  }
};

bool Pool::Smaller::operator()(const Block* a, const Block* b) const {
  if (a->stream != b->stream) return a->stream < b->stream;
  return a->bytes != b->bytes ? a->bytes < b->bytes : a->data < b->data;
}

// By the segment's size, not the block's: what is split off a small segment stays with its kind.
std::set<Block*, Pool::Smaller>& Allocator::list_of(Pool* pool, const Block* block) {
  size_t segment = block->bytes;
  for (const Block* b = block->before; b; b = b->before) segment += b->bytes;
  for (const Block* b = block->after; b; b = b->after) segment += b->bytes;
  return segment == kSmallSegment ? pool->small : pool->large;
}

detail::StorageRef Allocator::allocate(size_t bytes, cudaStream_t stream, Pool* pool) {
  auto owned = std::make_unique<Owned>();
  owned->bytes = bytes;
  owned->device = {DeviceType::cuda, static_cast<int8_t>(device_)};
  owned->release = Owned::give_back;
  owned->allocator = this;
  if (bytes > 0) {
    EP_CHECK(bytes <= size_t{1} << 48, "no device has {} of memory",
             format_bytes(static_cast<int64_t>(bytes)));
    const size_t rounded = round_up(bytes, kGranule);
    const std::lock_guard lock(mutex_);
    if (!events_.empty()) collect_passed_events();
    Block* block = take_recent(rounded, stream, pool);
    if (!block) {
      if (rounded > kMedium) free_recent();  // one of them may fit better than what is free already
      block = find_free(rounded, stream, pool);
      if (!block && !recent_.empty()) {
        free_recent();
        block = find_free(rounded, stream, pool);
      }
      if (!block) block = make_segment(rounded, stream, pool);
      split(block, rounded);
      block->allocated = true;
    }
    owned->block = block;
    owned->data = block->data;
    ++stats_.allocations;
    stats_.allocated += static_cast<int64_t>(block->bytes);
    stats_.active += static_cast<int64_t>(block->bytes);
    stats_.peak_allocated = std::max(stats_.peak_allocated, stats_.allocated);
    profile::record_memory(owned->device, block->data, static_cast<int64_t>(block->bytes), stats_.allocated,
                           stats_.reserved);
  }
  return detail::StorageRef(owned.release());
}

Block* Allocator::find_free(size_t bytes, cudaStream_t stream, Pool* pool) {
  auto& list = bytes <= kSmall ? pool->small : pool->large;
  Block key{.bytes = bytes, .stream = stream};
  const auto found = list.lower_bound(&key);
  if (found == list.end() || (*found)->stream != stream) return nullptr;
  Block* block = *found;
  // A huge block is not broken for a request that would fit a new segment many times over.
  if (bytes > kMedium && block->bytes > 2 * bytes && block->bytes - bytes > size_t{256} << 20) return nullptr;
  list.erase(found);
  if (block->is_split()) stats_.inactive_split -= static_cast<int64_t>(block->bytes);
  return block;
}

Block* Allocator::make_segment(size_t bytes, cudaStream_t stream, Pool* pool) {
  const size_t segment = segment_bytes(bytes);
  const OutsideCapture outside;
  void* data = nullptr;
  cudaError_t error = cudaMalloc(&data, segment);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    ++stats_.retries;
    free_segments();
    error = cudaMalloc(&data, segment);
  }
  if (error == cudaErrorMemoryAllocation) fail_out_of_memory(bytes);
  check_cuda("cudaMalloc", error);
  stats_.reserved += static_cast<int64_t>(segment);
  stats_.peak_reserved = std::max(stats_.peak_reserved, stats_.reserved);
  return new Block{.data = static_cast<char*>(data), .bytes = segment, .stream = stream, .pool = pool};
}

void Allocator::fail_out_of_memory(size_t bytes) {
  cudaGetLastError();
  ++stats_.out_of_memory;
  size_t free = 0, total = 0;
  cudaMemGetInfo(&free, &total);
  const auto text = [](auto n) { return format_bytes(static_cast<int64_t>(n)); };
  fail(
      "out of memory on cuda:{}: {} were asked for; the device has {}, of which {} are free; allocated {}, "
      "reserved {}, of that {} in split blocks that do not fit; the cache was emptied first",
      device_, text(bytes), text(total), text(free), text(stats_.allocated), text(stats_.reserved),
      text(stats_.inactive_split));
}

void Allocator::split(Block* block, size_t bytes) {
  const size_t rest = block->bytes - bytes;
  const bool small = &list_of(block->pool, block) == &block->pool->small;
  if (rest < least_rest(small)) return;
  auto* remainder = new Block{.data = block->data + bytes,
                              .bytes = rest,
                              .stream = block->stream,
                              .pool = block->pool,
                              .before = block,
                              .after = block->after};
  if (block->after) block->after->before = remainder;
  block->after = remainder;
  block->bytes = bytes;
  stats_.inactive_split += static_cast<int64_t>(rest);
  (small ? block->pool->small : block->pool->large).insert(remainder);
}

void Allocator::release(Block* block) {
  const std::lock_guard lock(mutex_);
  ++stats_.frees;
  stats_.allocated -= static_cast<int64_t>(block->bytes);
  profile::record_memory({DeviceType::cuda, static_cast<int8_t>(device_)}, block->data,
                         -static_cast<int64_t>(block->bytes), stats_.allocated, stats_.reserved);
  block->allocated = false;
  if (!block->also_on.empty()) {
    const OutsideCapture outside;
    const OnDevice current(device_);
    for (cudaStream_t stream : block->also_on) {
      ++block->waiting;
      events_[stream].emplace_back(recorded_event(stream), block);
    }
    block->also_on.clear();
  }
  if (block->waiting == 0) keep_recent(block);
}

// Where its neighbours are concerned, a recent block is still in use.
void Allocator::keep_recent(Block* block) {
  block->allocated = true;
  if (recent_.size() == kMostRecent) free_recent(1);
  recent_.push_back(block);
  count_recent(block, 1);
}

void Allocator::count_recent(const Block* block, int sign) {
  const int64_t bytes = sign * static_cast<int64_t>(block->bytes);
  stats_.active -= bytes;
  if (block->is_split()) stats_.inactive_split += bytes;
}

Block* Allocator::take_recent(size_t bytes, cudaStream_t stream, const Pool* pool) {
  // The first in memory, so that a loop meets the same addresses whatever the order it frees them in.
  auto found = recent_.end();
  for (auto at = recent_.begin(); at != recent_.end(); ++at) {
    const Block& b = **at;
    const bool fits = b.bytes >= bytes && b.bytes - bytes < least_rest(bytes <= kSmall);
    if (!fits || b.stream != stream || b.pool != pool) continue;
    if (found == recent_.end() || b.data < (*found)->data) found = at;
  }
  if (found == recent_.end()) return nullptr;
  Block* block = *found;
  recent_.erase(found);
  if (block->is_split()) stats_.inactive_split -= static_cast<int64_t>(block->bytes);
  return block;
}

void Allocator::free_recent(size_t most) {
  for (; most > 0 && !recent_.empty(); --most) {
    Block* block = recent_.front();
    recent_.erase(recent_.begin());
    count_recent(block, -1);
    block->allocated = false;
    make_free(block);
  }
}

void Allocator::make_free(Block* block) {
  stats_.active -= static_cast<int64_t>(block->bytes);
  if (retired_.contains(block->pool)) block->pool = &shared_;
  auto& list = list_of(block->pool, block);
  const auto is_free = [&](const Block* b) {
    return b && !b->allocated && b->waiting == 0 && b->pool == block->pool;
  };
  for (Block* neighbour : {block->before, block->after})
    if (is_free(neighbour)) {
      list.erase(neighbour);
      stats_.inactive_split -= static_cast<int64_t>(neighbour->bytes);
      block = merge(block, neighbour);
    }
  if (block->is_split()) stats_.inactive_split += static_cast<int64_t>(block->bytes);
  list.insert(block);
}

Block* Allocator::merge(Block* block, Block* neighbour) {
  Block* first = neighbour == block->before ? neighbour : block;
  Block* second = first == block ? neighbour : block;
  first->bytes += second->bytes;
  first->after = second->after;
  if (second->after) second->after->before = first;
  delete second;
  return first;
}

// With `wait` all that can be waited for has passed.
void Allocator::collect_passed_events(bool wait) {
  const OutsideCapture outside;
  const auto has_passed = [wait](cudaEvent_t& event) {
    const cudaError_t error = wait ? cudaEventSynchronize(event) : cudaEventQuery(event);
    if (error == cudaErrorCapturedEvent) {  // the capture began as it was recorded
      cudaEventDestroy(event);
      event = nullptr;
    }
    return error != cudaErrorNotReady && error != cudaErrorCapturedEvent;
  };
  for (auto at = events_.begin(); at != events_.end();) {
    auto& queue = at->second;
    size_t passed = 0;
    for (; passed < queue.size(); ++passed) {
      auto& [event, block] = queue[passed];
      if (!event) event = recorded_event(at->first);
      if (!event || !has_passed(event)) break;
      cudaEventDestroy(event);
      if (--block->waiting == 0) make_free(block);
    }
    cudaGetLastError();  // "not ready" is kept as the last error
    queue.erase(queue.begin(), queue.begin() + static_cast<std::ptrdiff_t>(passed));
    at = queue.empty() ? events_.erase(at) : std::next(at);
  }
}

// Without waiting for the whole device, which breaks what any thread records: a block that is free is of a
// stream's order, and cudaFree waits for what uses it.
int64_t Allocator::free_segments() {
  const OutsideCapture outside;
  collect_passed_events(true);
  free_recent();
  int64_t freed = 0;
  for (auto* list : {&shared_.small, &shared_.large})
    for (auto at = list->begin(); at != list->end();) {
      Block* block = *at;
      if (block->is_split()) {
        ++at;
        continue;
      }
      cudaFree(block->data);
      freed += static_cast<int64_t>(block->bytes);
      at = list->erase(at);
      delete block;
    }
  stats_.reserved -= freed;
  return freed;
}

Pool* Allocator::make_pool() {
  const std::lock_guard lock(mutex_);
  auto pool = std::make_unique<Pool>();
  Pool* made = pool.get();
  graph_pools_.emplace(made, std::move(pool));
  return made;
}

void Allocator::retire_pool(Pool* pool) {
  const std::lock_guard lock(mutex_);
  free_recent();
  retired_.insert(graph_pools_.extract(pool));
  for (auto* list : {&pool->small, &pool->large}) {
    const std::vector<Block*> blocks(list->begin(), list->end());
    list->clear();
    for (Block* block : blocks) {
      if (block->is_split()) stats_.inactive_split -= static_cast<int64_t>(block->bytes);
      stats_.active += static_cast<int64_t>(block->bytes);
      make_free(block);
    }
  }
}

void Allocator::use_on(const Storage* storage, cudaStream_t stream) {
  const Owned* owned = Owned::of(storage);
  if (!owned || !owned->block || owned->block->stream == stream) return;
  const std::lock_guard lock(mutex_);
  auto& streams = owned->block->also_on;
  if (std::find(streams.begin(), streams.end(), stream) == streams.end()) streams.push_back(stream);
}

Pool* Allocator::pool_of(const Storage* storage) const {
  const Owned* owned = Owned::of(storage);
  return owned && owned->block ? owned->block->pool : nullptr;
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

void Allocator::empty_cache() {
  const std::lock_guard lock(mutex_);
  free_segments();
}

}  // namespace epilogue::cuda
