// The allocator and what is counted of it, through the public functions.
#include "epilogue/memory.h"

#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "epilogue/nn.h"

namespace epilogue {
namespace {

TEST(Memory, CountsWhatTensorsHoldAndKeepsBlocksForTheNext) {
  empty_cache();
  const MemoryStats before = memory_stats();
  const void* first = nullptr;
  {
    const Tensor x = empty({1000, 1000});
    first = x.data();
    EXPECT_GE(memory_stats().allocated - before.allocated, 4'000'000);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(x.data()) % 64, 0U);
  }
  EXPECT_EQ(memory_stats().allocated, before.allocated);
  EXPECT_GT(memory_stats().reserved, before.reserved);
  EXPECT_EQ(empty({1000, 1000}).data(), first) << "a freed block was not handed out again";
  empty_cache();
  EXPECT_EQ(memory_stats().reserved, before.reserved);
}

TEST(Memory, PeakIsOfTheTimeSinceReset) {
  const Tensor kept = empty({1 << 20});
  reset_peak_memory();
  const MemoryStats start = memory_stats();
  EXPECT_EQ(start.peak_allocated, start.allocated);
  { const Tensor brief = empty({1 << 20}); }
  EXPECT_GE(memory_stats().peak_allocated - start.allocated, 4 << 20);
  EXPECT_NE(memory_summary().find("packed weights"), std::string::npos);
}

TEST(Memory, PackedWeightIsCountedAndGoesWithItsWeightOrItsVersion) {
  const int64_t before = memory_stats().packed_weights;
  {
    nn::Linear layer(256, 512);
    const Tensor x = randn({300, 256}, 1);
    layer.forward(x);
    const int64_t packed = memory_stats().packed_weights - before;
    if (packed == 0) GTEST_SKIP() << "this instruction set has no packed layout";
    EXPECT_GE(packed, 256 * 512 * 4);
    layer.weight.copy_(randn({512, 256}, 2));
    layer.forward(x);
    EXPECT_EQ(memory_stats().packed_weights - before, packed) << "the outdated copy was kept";
  }
  EXPECT_EQ(memory_stats().packed_weights, before);
}

// A weight that is no parameter is multiplied by oneDNN, which may want scratch memory.
TEST(Memory, ProductsOfManySizesKeepNoScratchEach) {
  const Tensor weight = randn({512, 512}, 1);
  mm(randn({300, 512}, 2), weight);
  const int64_t before = memory_stats().allocated;
  for (int64_t rows = 129; rows < 149; ++rows) mm(randn({rows, 512}, 2), weight);
  EXPECT_LT(memory_stats().allocated - before, 5 * 512 * 512);
}

TEST(Memory, ImpossibleRequestIsAnErrorAndLosesNothing) {
  const MemoryStats before = memory_stats();
  EXPECT_THROW(empty({int64_t{1} << 50}), Error);
  EXPECT_THROW(empty({int64_t{1} << 62}), Error);
  EXPECT_EQ(memory_stats().allocated, before.allocated);
  EXPECT_EQ(empty({16}).numel(), 16);
}

TEST(Memory, ThreadsAllocateAndFreeEachOthersTensors) {
  const int64_t before = memory_stats().allocated;
  std::vector<Tensor> handed(8);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < handed.size(); ++t)
    threads.emplace_back([t, &handed] {
      for (int i = 0; i < 200; ++i)
        handed[t] = full({static_cast<int64_t>(t) * 37 + i}, static_cast<double>(i));
    });
  for (std::thread& thread : threads) thread.join();
  for (const Tensor& tensor : handed) EXPECT_EQ(tensor.select(0, -1).item(), 199);
  handed.clear();
  EXPECT_EQ(memory_stats().allocated, before);
}

}  // namespace
}  // namespace epilogue
