// What a call does where the device refuses a launch, has no memory left, or is used by many threads.
#include <atomic>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "epilogue/memory.h"
#include "error_of.h"
#include "simulated_cuda/simulated_test.h"

namespace epilogue {
namespace {

TEST_F(SimulatedCuda, RefusedLaunchIsAnErrorThatNamesTheOpAndTheNextCallRuns) {
  const nn::GatedMlp mlp = layer(768, 3072);
  const Tensor x = rows(7, 768);
  device_->fails = [](const Kernel&) { return true; };
  const std::string text = error_of([&] { mlp.forward(x); });
  for (const char* part : {"gated_mlp", "cudaErrorSimulated"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
  device_->fails = nullptr;
  EXPECT_EQ(settled_call(mlp, x).size(), 2U);
}

TEST_F(SimulatedCuda, CallWithoutMemoryIsAnErrorWithTheNumbersAndTheNextOneRuns) {
  const nn::GatedMlp mlp = layer(768, 3072);
  const Tensor x = rows(8192, 768);
  const size_t memory = std::exchange(device_->memory, device_->taken + (24 << 20));
  const std::string text = error_of([&] { mlp.forward(x); });
  for (const char* part : {"out of memory on cuda:0", "48.00 MiB were asked for"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
  device_->memory = memory;
  EXPECT_EQ(settled_call(mlp, x).size(), 2U);
}

// Where others are at work on the device no file keeps what was found. A way is timed at every second of its
// runs; of those two in three take longer.
TEST_F(SimulatedCuda, ChoicesOfARestlessDeviceAreNotKeptOnDisk) {
  for (const double slow : {14.0, 10.0}) {
    device_->microseconds = [slow, runs = std::map<std::string, int>()](const Kernel& kernel) mutable {
      return ++runs[kernel.name] % 6 < 2 ? 10.0 : slow;
    };
    const nn::Linear layer(768, slow > 10 ? 3072 : 1536, {.bias = false, .tensor = {DType::bf16, kCuda}});
    const Tensor x = rows(304, 768);
    EXPECT_EQ(settled_kernels_of([&] { layer.forward(x); }).size(), 1U);
    EXPECT_EQ(std::filesystem::exists(cache_), slow == 10);  // the choices' file is all that would be there
  }
}

TEST_F(SimulatedCuda, ThreadsThatEndLeaveTheirStreamsToOthers) {
  const nn::GatedMlp mlp = layer(768, 3072);
  const Tensor x = rows(9, 768);
  settled_call(mlp, x);
  const int streams = device_->streams;
  for (int i = 0; i < 8; ++i)
    std::thread([&] {
      const auto kernels = settled_call(mlp, x);
      EXPECT_TRUE(kernels[0].replayed && kernels[1].replayed);
    }).join();
  EXPECT_LE(device_->streams, streams + 1);
}

TEST_F(SimulatedCuda, ThreadsSettleTheSameLayersBesideEachOther) {
  const nn::GatedMlp mlp = layer(768, 3072);
  const std::vector<int64_t> sizes{1, 33, 300, 1500};
  const auto settle = [&] {
    const Stream stream(kCuda);
    const StreamGuard guard(stream);
    std::vector<Tensor> inputs;
    for (const int64_t m : sizes) inputs.push_back(rows(m, 768));
    for (int i = 0; i < 50; ++i)
      for (const Tensor& x : inputs) mlp.forward(x);
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(settle);
  for (std::thread& thread : threads) thread.join();
  for (const int64_t m : sizes) EXPECT_LE(settled_call(mlp, rows(m, 768)).size(), 2U) << m;
}

// Rows at new addresses, as a server's: calls of them are recorded all the time.
void call_on_new_rows(const nn::GatedMlp& mlp, int count) {
  std::vector<Tensor> kept;
  for (int i = 0; i < count; ++i) {
    kept.push_back(empty({300, 768}, {DType::bf16, kCuda}));
    for (int again = 0; again < 4; ++again) mlp.forward(kept.back());
  }
}

TEST_F(SimulatedCuda, WaitingForTheDeviceBreaksNoRecordingOfAnotherThread) {
  const nn::GatedMlp mlp = layer(768, 3072);
  const auto before = names(settled_call(mlp, rows(300, 768)));
  std::atomic<bool> end{false};
  std::vector<std::thread> others;
  others.emplace_back([&] {
    while (!end) synchronize(kCuda);
  });
  others.emplace_back([&] {
    while (!end) {
      empty_cache(kCuda);
      empty_pinned({16}, DType::f32, kCuda);  // is let go of once the device is idle
    }
  });
  call_on_new_rows(mlp, 2000);
  end = true;
  for (std::thread& other : others) other.join();
  EXPECT_EQ(names(call(mlp, rows(300, 768))), before);
}

// As by another library's wait for the whole device.
TEST_F(SimulatedCuda, ACallWhoseRecordingBreaksAtItsEndIsRecordedAgain) {
  const nn::GatedMlp mlp = layer(768, 3072);
  const Tensor before = rows(300, 768), x = rows(300, 768);  // at another address
  settled_call(mlp, before);
  device_->broken_captures = 1;
  for (int i = 0; i < 8; ++i) mlp.forward(x);
  EXPECT_EQ(device_->broken_captures, 0);
  for (const Kernel& kernel : call(mlp, x)) EXPECT_TRUE(kernel.replayed) << kernel.name;
}

TEST_F(SimulatedCuda, BlocksThatWaitForAStreamBreakNoRecordingOfAnotherThread) {
  const nn::GatedMlp mlp = layer(768, 3072);
  settled_call(mlp, rows(300, 768));
  std::vector<Tensor> used;
  {
    const Stream stream(kCuda);
    for (int i = 0; i < 2000; ++i) used.push_back(empty({8}, {DType::bf16, kCuda}));
    const StreamGuard guard(stream);
    for (const Tensor& tensor : used) mul(tensor, tensor);
  }
  std::thread other([&] { call_on_new_rows(mlp, 500); });
  while (!used.empty()) {
    used.pop_back();
    empty({8}, {DType::bf16, kCuda});  // asks what has passed
  }
  other.join();
}

TEST_F(SimulatedCuda, WhileAGraphIsCapturedOthersAreToldAndWhatTheyLetGoOfWaits) {
  const nn::GatedMlp mlp = layer(768, 3072);
  const Tensor x = rows(10, 768);
  settled_call(mlp, x);
  Tensor y, pinned = empty_pinned({1 << 20}, DType::f32, kCuda);
  std::optional<Graph> earlier = Graph::capture(kCuda, [&] { y = mlp.forward(x); });
  const size_t taken = device_->taken;
  bool captures = false;
  const Graph graph = Graph::capture(kCuda, [&] {
    if (std::exchange(captures, true))
      std::thread([&] {
        EXPECT_NE(error_of([] { synchronize(kCuda); }).find("another thread captures a graph"),
                  std::string::npos);
        pinned = {};
        earlier.reset();
        EXPECT_GE(device_->taken, taken);
        Tensor z;
        const Graph beside = Graph::capture(kCuda, [&] { z = mlp.forward(x); });
        beside.replay();
      }).join();
    y = mlp.forward(x);
  });
  EXPECT_LT(device_->taken, taken + (1 << 22));
  graph.replay();
  synchronize(kCuda);
}

TEST_F(SimulatedCuda, NothingIsTimedWhereThereIsNoMemoryForIt) {
  const nn::GatedMlp mlp = layer(768, 3072);
  const Tensor x = rows(300, 768);
  settled_call(mlp, rows(301, 768));  // has the scratch memory of the stream
  empty_cache(kCuda);
  const size_t memory = std::exchange(device_->memory, device_->taken + (30 << 20));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(call(mlp, x).size(), 2U);
  device_->memory = memory;
  EXPECT_EQ(settled_call(mlp, x).size(), 2U);
}

TEST_F(SimulatedCuda, GraphKeepsWhatItReadsAndIsReplayedOnAnotherStream) {
  Tensor y;
  std::optional<Graph> graph;
  {
    const nn::GatedMlp mlp = layer(768, 3072);
    const Tensor x = rows(10, 768);
    settled_call(mlp, x);
    graph.emplace(Graph::capture(kCuda, [&] { y = mlp.forward(x); }));
  }
  const int64_t allocated = memory_stats(kCuda).allocated;
  EXPECT_GT(allocated, 3 * 768 * 3072 * 2);  // the weights
  device_->kernels.clear();
  const Stream stream(kCuda);
  {
    const StreamGuard guard(stream);
    graph->replay();
  }
  EXPECT_EQ(device_->kernels.size(), 2U);
  graph.reset();
  y = {};
  EXPECT_LT(memory_stats(kCuda).allocated, allocated - 3 * 768 * 3072 * 2);
}

}  // namespace
}  // namespace epilogue
