// What a device with queues adds: streams, events, graphs, pinned memory, its allocator and its errors.
#include <algorithm>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "close.h"
#include "devices.h"
#include "epilogue/memory.h"
#include "epilogue/nn.h"
#include "epilogue/ops.h"
#include "traced.h"

namespace epilogue {
namespace {

const TensorOptions kHalf{DType::bf16, kCuda}, kSingle{DType::f32, kCuda};

TEST(CudaModule, WithoutADeviceTheReasonIsSaid) {
  if (device_count(DeviceType::cuda) > 0) GTEST_SKIP() << "this machine has one";
  EXPECT_FALSE(why_no_devices(DeviceType::cuda).empty());
  try {
    empty({4}, kSingle);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("device cuda:0 is not there: "), std::string::npos)
        << error.what();
  }
}

TEST(CpuQueues, AreRefusedWithTheReason) {
  EXPECT_THROW(Stream{kCpu}, Error);
  EXPECT_THROW(Graph::capture(kCpu, [] {}), Error);
  synchronize(kCpu);
}

class Cuda : public OnCuda {};

TEST_F(Cuda, DeviceTellsWhatItIs) {
  const DeviceInfo info = device_info(kCuda);
  EXPECT_FALSE(info.name.empty());
  EXPECT_GT(info.processors, 0);
  EXPECT_GT(info.memory_bytes, int64_t{1} << 30);
  EXPECT_EQ(info.libraries.size(), 3U);
  EXPECT_THROW(device_info({DeviceType::cuda, 99}), Error);
}

TEST_F(Cuda, StreamsWaitForEventsOfOthers) {
  const Stream a(kCuda), b(kCuda);
  const Tensor ones = full({1 << 22}, 1, kSingle);
  synchronize(kCuda);
  Tensor sum;
  Event ready(kCuda);
  {
    const StreamGuard guard(a);
    sum = ones;
    for (int i = 0; i < 40; ++i) sum = add(sum, ones);
    ready.record();
  }
  Tensor doubled;
  {
    const StreamGuard guard(b);
    ready.wait();
    doubled = add(sum, sum);
  }
  b.synchronize();
  EXPECT_EQ(doubled.select(0, 12345).item(), 82);
}

TEST_F(Cuda, EventsMeasureTheTimeBetweenThem) {
  Event from(kCuda), to(kCuda);
  const Tensor x = randn({2048, 2048}, 1, kHalf);
  from.record();
  for (int i = 0; i < 20; ++i) mm(x, x);
  to.record();
  to.synchronize();
  EXPECT_GT(from.elapsed_us(to), 20.0);
}

TEST_F(Cuda, MemoryFreedOnOneStreamIsNotReusedWhileAnotherReadsIt) {
  const Stream slow(kCuda);
  for (int round = 0; round < 20; ++round) {
    Tensor x = full({1 << 22}, round, kSingle);
    synchronize(kCuda);
    Tensor kept;
    {
      const StreamGuard guard(slow);
      kept = x;
      for (int i = 0; i < 10; ++i) kept = add(kept, x);
    }
    x = {};
    full({1 << 22}, -1, kSingle);  // would be x's memory
    slow.synchronize();
    ASSERT_EQ(kept.select(0, 77).item(), 11 * round);
  }
}

TEST_F(Cuda, ThousandRandomAllocationsOverFourStreamsKeepTheirContents) {
  std::mt19937 random(1);
  std::vector<Stream> streams(4, Stream(kCuda));
  for (Stream& stream : streams) stream = Stream(kCuda);
  struct Held {
    Tensor tensor;
    double value;
  };
  std::vector<Held> held;
  const int64_t before = memory_stats(kCuda).allocated;
  for (int i = 0; i < 1000; ++i) {
    if (!held.empty() && random() % 3 == 0) {
      const size_t at = random() % held.size();
      synchronize(kCuda);
      ASSERT_EQ(held[at].tensor.select(0, -1).item(), held[at].value);
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(at));
      continue;
    }
    const StreamGuard guard(streams[random() % 4]);
    constexpr int64_t kSizes[] = {1, 100, 5000, 300'000, 1'000'000, 4'000'000};
    const int64_t size = kSizes[random() % 6] + static_cast<int64_t>(random() % 100);
    held.push_back({full({size}, i, kSingle), static_cast<double>(i)});
  }
  synchronize(kCuda);
  for (const Held& h : held) {
    EXPECT_EQ(h.tensor.select(0, 0).item(), h.value);
    EXPECT_EQ(h.tensor.select(0, -1).item(), h.value);
  }
  held.clear();
  synchronize(kCuda);
  EXPECT_EQ(memory_stats(kCuda).allocated, before);
}

TEST_F(Cuda, MoreMemoryThanTheCardHasIsAnErrorWithTheNumbersAndTheProgramGoesOn) {
  const MemoryStats before = memory_stats(kCuda);
  { const Tensor cached = empty({64 << 20}, kSingle); }
  try {
    empty({int64_t{1} << 40}, kSingle);
    FAIL() << "no error";
  } catch (const Error& error) {
    const std::string text = error.what();
    for (const char* part : {"out of memory", "were asked for", "free", "allocated", "reserved"})
      EXPECT_NE(text.find(part), std::string::npos) << text;
  }
  const MemoryStats after = memory_stats(kCuda);
  EXPECT_EQ(after.allocated, before.allocated);
  EXPECT_EQ(after.out_of_memory, before.out_of_memory + 1);
  EXPECT_GT(after.retries, before.retries);
  EXPECT_EQ(full({3}, 4, kSingle).select(0, 2).item(), 4);
  EXPECT_NE(memory_summary(kCuda).find("fragmentation"), std::string::npos);
}

TEST_F(Cuda, FreedMemoryIsHandedOutAgain) {
  synchronize(kCuda);
  const void* first = nullptr;
  {
    const Tensor x = empty({1 << 20}, kSingle);
    first = x.data();
  }
  EXPECT_EQ(empty({1 << 20}, kSingle).data(), first);
}

TEST_F(Cuda, PinnedMemoryIsCopiedBothWays) {
  Tensor pinned = empty_pinned({1 << 16}, DType::f32, kCuda);
  pinned.copy_(randn({1 << 16}, 3));
  Tensor there = empty({1 << 16}, kSingle);
  there.copy_(pinned);
  Tensor back = empty_pinned({1 << 16}, DType::f32, kCuda);
  back.copy_(there);
  synchronize(kCuda);
  EXPECT_EQ(max_error(back, pinned), 0);
}

TEST_F(Cuda, GraphReplaysWithNewInputsInPlace) {
  const nn::GatedMlp layer(64, 128, {.tensor = kHalf});
  Tensor x = randn({32, 64}, 1, kHalf), y;
  const Graph graph = Graph::capture(kCuda, [&] { y = layer.forward(x); });
  for (uint64_t seed = 2; seed < 6; ++seed) {
    x.copy_(randn({32, 64}, seed, kHalf));
    graph.replay();
    EXPECT_LE(max_error(y, layer.forward(x)), 1e-2) << seed;
  }
}

TEST_F(Cuda, GraphKeepsItsMemoryWhenTheTensorsAreGone) {
  Tensor y, x = randn({32, 64}, 1, kHalf), expected;
  Graph graph = [&] {
    const nn::GatedMlp layer(64, 128, {.tensor = kHalf, .seed = 5});
    expected = layer.forward(x);
    return Graph::capture(kCuda, [&] { y = layer.forward(x); });
  }();
  for (int i = 0; i < 50; ++i) full({1 << (i % 20)}, -7, kHalf);  // would be the weights' memory
  graph.replay();
  EXPECT_LE(max_error(y, expected), 1e-2);
  const Tensor kept = y;
  graph = Graph::capture(kCuda, [&] { y = add(x, x); });  // the first graph's pool retires
  for (int i = 0; i < 50; ++i) full({1 << (i % 20)}, -7, kHalf);
  EXPECT_LE(max_error(kept, expected), 1e-2);
}

TEST_F(Cuda, ReadingAValueWhileCapturingIsAnErrorAndTheNextCaptureWorks) {
  const Tensor x = full({4}, 2, kSingle);
  int calls = 0;
  EXPECT_THROW(Graph::capture(kCuda,
                              [&] {
                                const Tensor y = add(x, x);
                                if (++calls == 2) y.select(0, 0).item();
                              }),
               Error);
  Tensor y;
  const Graph graph = Graph::capture(kCuda, [&] { y = add(x, x); });
  graph.replay();
  EXPECT_EQ(y.select(0, 1).item(), 4);
}

TEST_F(Cuda, ThreadsRunTheSameLayerBesideEachOther) {
  const nn::GatedMlp layer(64, 128, {.tensor = kHalf});
  const Tensor x = randn({32, 64}, 1, kHalf), expected = layer.forward(x);
  synchronize(kCuda);
  std::vector<std::thread> threads;
  std::vector<double> errors(4, 1);
  for (size_t t = 0; t < errors.size(); ++t)
    threads.emplace_back([&, t] {
      const Stream stream(kCuda);
      const StreamGuard guard(stream);
      Tensor y;
      for (int i = 0; i < 50; ++i) y = layer.forward(x);
      errors[t] = max_error(y, expected);
    });
  for (std::thread& thread : threads) thread.join();
  for (const double error : errors) EXPECT_LE(error, 1e-2);
}

// From the third time on, once the quickest way is known: also where nothing has needed the stream's
// workspace.
TEST_F(Cuda, CallsOnAStreamOfTheirOwnAreReplayed) {
  const nn::GatedMlp layer(256, 512, {.mode = nn::Mode::fused, .tensor = kHalf});
  const Tensor x = randn({16, 256}, 1, kHalf);
  synchronize(kCuda);
  std::vector<Stream> streams;  // the last of which no test before has used
  for (int i = 0; i < 50; ++i) streams.emplace_back(kCuda);
  const Stream& stream = streams.back();
  const StreamGuard guard(stream);
  const auto call = [&] {
    for (int i = 0; i < 20; ++i) layer.forward(x);
    stream.synchronize();
  };
  std::vector<std::string> calls;
  for (int round = 0; round < 100 && !std::ranges::count(calls, "cudaGraphLaunch"); ++round) {
    call();
    calls = kernels_of(call, trace::EventKind::cuda_runtime);
  }
  EXPECT_GT(std::ranges::count(calls, "cudaGraphLaunch"), 0);
}

// Our products load weights before the kernel before them has ended.
TEST_F(Cuda, AProductThatIsTheNextOnesWeightIsReadWhole) {
  const Tensor x = randn({8, 1024}, 1, kHalf), b = randn({1024, 256}, 2, kHalf);
  for (uint64_t i = 0; i < 300; ++i) {
    const Tensor a = randn({64, 256}, i, kHalf);
    const Tensor weight = linear(a, b), y = linear(x, weight);
    synchronize(kCuda);
    ASSERT_LE(max_error(y, linear(x, weight)), 16) << i;  // sums of some hundreds, in bf16
  }
}

TEST_F(Cuda, ErrorNamesTheOpAndTheShapes) {
  EXPECT_THROW(linear(randn({2, 3}, 1, kHalf), randn({5, 4}, 2, kHalf)), Error);
  EXPECT_THROW(add(randn({2}, 1, kHalf), randn({2}, 1, {DType::bf16})), Error);
}

}  // namespace
}  // namespace epilogue
