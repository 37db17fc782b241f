// The allocator over a device that is made of host memory: the few functions of the runtime that it calls
// stand below.
#include "backend/cuda/allocator.h"

#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "backend/cuda/check.h"
#include "epilogue/error.h"

namespace {

struct FakeDevice {
  size_t limit = SIZE_MAX, bytes = 0;
  std::map<void*, size_t> segments;
  bool events_pass = true;
  bool captures = false;  // all streams are being captured
};
FakeDevice fake;

}  // namespace

extern "C" {
cudaError_t cudaMalloc(void** data, size_t bytes) {
  if (fake.bytes + bytes > fake.limit) return cudaErrorMemoryAllocation;
  *data = std::aligned_alloc(512, bytes);
  fake.segments[*data] = bytes;
  fake.bytes += bytes;
  return cudaSuccess;
}
cudaError_t cudaFree(void* data) {
  fake.bytes -= fake.segments.extract(data).mapped();
  std::free(data);
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *total = fake.limit;
  *free = fake.limit - fake.bytes;
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = reinterpret_cast<cudaEvent_t>(&fake);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) {
  EXPECT_FALSE(fake.captures);
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status = fake.captures ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaEventQuery(cudaEvent_t) { return fake.events_pass ? cudaSuccess : cudaErrorNotReady; }
cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventSynchronize(cudaEvent_t) {
  fake.events_pass = true;
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode*) { return cudaSuccess; }
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorName(cudaError_t) { return ""; }
const char* cudaGetErrorString(cudaError_t) { return ""; }
const char* cublasLtGetStatusString(cublasStatus_t) { return ""; }
}

namespace epilogue::cuda {
namespace {

constexpr size_t kKiB = 1024, kMiB = 1024 * kKiB;

cudaStream_t stream(size_t i) { return reinterpret_cast<cudaStream_t>(16 * i); }

class CudaAllocator : public testing::Test {
 protected:
  CudaAllocator() { fake = {}; }
  ~CudaAllocator() override {
    allocator_.empty_cache();
    EXPECT_EQ(fake.bytes, 0U);
    const MemoryStats stats = allocator_.stats();
    EXPECT_EQ(stats.allocated, 0);
    EXPECT_EQ(stats.active, 0);
    EXPECT_EQ(stats.inactive_split, 0);
    EXPECT_EQ(stats.reserved, 0);
  }
  detail::StorageRef allocate(size_t bytes, size_t on = 0) {
    return allocator_.allocate(bytes, stream(on), allocator_.shared_pool());
  }
  Allocator allocator_{0};
};

TEST_F(CudaAllocator, GivesNoByteTwiceInRandomOrders) {
  std::mt19937 random(7);
  std::vector<detail::StorageRef> held;
  std::map<char*, size_t> taken;  // where it begins, and its bytes
  Pool* graph = allocator_.make_pool();
  for (int i = 0; i < 20000; ++i) {
    if (random() % 100 == 0) fake.events_pass = !fake.events_pass;
    if (random() % 500 == 0) allocator_.empty_cache();
    if (random() % 500 == 0) {
      allocator_.retire_pool(graph);
      graph = allocator_.make_pool();
    }
    if (held.size() > 40 || (!held.empty() && random() % 2 == 0)) {
      const size_t at = random() % held.size();
      taken.erase(static_cast<char*>(held[at].get()->data));
      if (random() % 8 == 0) allocator_.use_on(held[at].get(), stream(random() % 3));
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(at));
      continue;
    }
    constexpr size_t kSizes[] = {1, 512, 100 * kKiB, 700 * kKiB, 3 * kMiB, 12 * kMiB};
    const size_t bytes = kSizes[random() % 6] * (1 + random() % 2);
    held.push_back(allocator_.allocate(bytes, stream(random() % 3),
                                       random() % 4 == 0 ? graph : allocator_.shared_pool()));
    auto* const data = static_cast<char*>(held.back().get()->data);
    const auto segment = std::prev(fake.segments.upper_bound(data));
    ASSERT_LE(data + bytes, static_cast<char*>(segment->first) + segment->second);
    const auto [self, fresh] = taken.emplace(data, bytes);
    ASSERT_TRUE(fresh);
    ASSERT_TRUE(self == taken.begin() || std::prev(self)->first + std::prev(self)->second <= data);
    ASSERT_TRUE(std::next(self) == taken.end() || data + bytes <= std::next(self)->first);
    const MemoryStats stats = allocator_.stats();
    ASSERT_LE(stats.allocated, stats.active);
    ASSERT_LE(stats.active + stats.inactive_split, stats.reserved);
    ASSERT_EQ(static_cast<size_t>(stats.reserved), fake.bytes);
  }
  held.clear();
  allocator_.retire_pool(graph);
}

TEST_F(CudaAllocator, GivesTheSameMemoryAgainForTheSameSize) {
  const void* data = allocate(100 * kKiB).get()->data;
  EXPECT_EQ(allocate(100 * kKiB).get()->data, data);
  EXPECT_NE(allocate(100 * kKiB, 1).get()->data, data);  // another stream's
  const detail::StorageRef other = allocate(100 * kKiB);
  EXPECT_EQ(other.get()->data, data);
  EXPECT_NE(allocate(100 * kKiB).get()->data, data);
}

TEST_F(CudaAllocator, GivesALoopTheSameAddressesWhateverItFreesFirst) {
  // 11.5 MiB: the rest of a segment that is not worth splitting off stays with the block.
  for (const size_t bytes : {100 * kKiB, 3 * kMiB, 11 * kMiB + 512 * kKiB}) {
    std::vector<const void*> first;
    for (int round = 0; round < 6; ++round) {
      std::vector<detail::StorageRef> blocks;
      for (int i = 0; i < 4; ++i) blocks.push_back(allocate(bytes));
      std::vector<const void*> addresses;
      for (const auto& block : blocks) addresses.push_back(block.get()->data);
      if (round <= 1) first = addresses;  // the first round cuts them
      EXPECT_EQ(addresses, first) << round;
      while (!blocks.empty()) blocks.erase(round % 2 == 0 ? blocks.begin() : std::prev(blocks.end()));
    }
    allocator_.empty_cache();
  }
}

TEST_F(CudaAllocator, JoinsWhatWasGivenBackBeforeItAsksForMore) {
  {
    std::vector<detail::StorageRef> pieces;
    for (int i = 0; i < 4; ++i) pieces.push_back(allocate(500 * kKiB));
  }
  const size_t before = fake.bytes;
  const detail::StorageRef whole = allocate(kMiB), rest = allocate(900 * kKiB);
  EXPECT_EQ(fake.bytes, before);
}

TEST_F(CudaAllocator, BreaksNoLargeBlockWhileAFittingOneWasJustGivenBack) {
  std::vector<detail::StorageRef> held;
  held.push_back(allocate(170 * kMiB));
  for (int i = 0; i < 100; ++i) held.push_back(allocate(100 * kKiB));
  const void* large = held.front().get()->data;
  const void* fitting = nullptr;
  {
    const detail::StorageRef block = allocate(100 * kMiB);
    fitting = block.get()->data;
    held.clear();  // the first one long before the block
  }
  EXPECT_EQ(allocate(90 * kMiB).get()->data, fitting);
  EXPECT_EQ(allocate(170 * kMiB).get()->data, large);
}

TEST_F(CudaAllocator, WaitsForOtherStreamsThatUsedABlock) {
  detail::StorageRef block = allocate(3 * kMiB);
  const void* data = block.get()->data;
  allocator_.use_on(block.get(), stream(1));
  fake.events_pass = false;
  block = {};
  EXPECT_GT(allocator_.stats().active, allocator_.stats().allocated);
  EXPECT_NE(allocate(3 * kMiB).get()->data, data);
  fake.events_pass = true;
  const detail::StorageRef first = allocate(3 * kMiB), second = allocate(3 * kMiB);
  EXPECT_TRUE(first.get()->data == data || second.get()->data == data);
}

TEST_F(CudaAllocator, WaitsForAStreamThatIsBeingCapturedUntilItNoLongerIs) {
  detail::StorageRef block = allocate(3 * kMiB);
  const void* data = block.get()->data;
  allocator_.use_on(block.get(), stream(1));
  fake.captures = true;
  block = {};
  EXPECT_NE(allocate(3 * kMiB).get()->data, data);
  fake.captures = false;
  const detail::StorageRef first = allocate(3 * kMiB), second = allocate(3 * kMiB);
  EXPECT_TRUE(first.get()->data == data || second.get()->data == data);
}

TEST_F(CudaAllocator, GivesItsCacheBackBeforeItFails) {
  fake.limit = 64 * kMiB;
  allocate(40 * kMiB);
  const detail::StorageRef other = allocate(48 * kMiB);
  EXPECT_EQ(allocator_.stats().retries, 1);
  EXPECT_THROW(allocate(40 * kMiB), Error);
  EXPECT_EQ(allocator_.stats().out_of_memory, 1);
}

}  // namespace
}  // namespace epilogue::cuda
