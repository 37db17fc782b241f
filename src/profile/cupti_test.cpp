// The device tracer on a real GPU, through the module that the library loads. Skipped where there is none.
#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <cuda_runtime.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "profile/device_tracer.h"
#include "profile/event.h"
#include "profile/window.h"
#include "trace/links.h"

namespace epilogue::profile {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Key;
using trace::EventKind;

// A kernel that counts: its time is its argument's. As PTX it needs no nvcc.
constexpr char kSpinPtx[] = R"(
.version 7.0
.target sm_80
.address_size 64
.visible .entry _Z4spinj(.param .u32 rounds)
{
  .reg .pred %p;
  .reg .b32 %n;
  ld.param.u32 %n, [rounds];
again:
  nanosleep.u32 0;
  sub.u32 %n, %n, 1;
  setp.ne.u32 %p, %n, 0;
  @%p bra again;
  ret;
}
)";

#define ASSERT_CUDA(call) ASSERT_EQ(call, cudaSuccess) << cudaGetErrorString(cudaGetLastError())

class Cupti : public testing::Test {
 protected:
  void SetUp() override {
    int devices = 0;
    const cudaError_t error = cudaGetDeviceCount(&devices);
    if (error != cudaSuccess || devices == 0) GTEST_SKIP() << "no GPU: " << cudaGetErrorString(error);
    cudaLibrary_t library{};
    ASSERT_CUDA(cudaLibraryLoadData(&library, kSpinPtx, nullptr, nullptr, 0, nullptr, nullptr, 0));
    ASSERT_CUDA(cudaLibraryGetKernel(&spin_, library, "_Z4spinj"));
    ASSERT_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    launch(100);
    ASSERT_CUDA(cudaDeviceSynchronize());
    expect_device_work();
  }

  void TearDown() override {
    detach_device_tracer();
    if (stream_) cudaStreamDestroy(stream_);
  }

  void launch(uint32_t rounds) const {
    void* arguments[] = {&rounds};
    EXPECT_EQ(cudaLaunchKernel(reinterpret_cast<const void*>(spin_), dim3(4, 2, 1), dim3(64, 2, 1), arguments,
                               0, stream_),
              cudaSuccess);
  }

  double launch_us(int times) const {  // the median, of launches that do not wait for the device
    std::vector<double> us;
    for (int i = 0; i < times; ++i) {
      const auto start = std::chrono::steady_clock::now();
      launch(1);
      us.push_back(
          std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
      if (i % 64 == 63) cudaStreamSynchronize(stream_);
    }
    std::nth_element(us.begin(), us.begin() + times / 2, us.end());
    return us[static_cast<size_t>(times / 2)];
  }

  cudaKernel_t spin_{};
  cudaStream_t stream_{};
};

std::vector<trace::Event> events(const trace::Trace& trace, EventKind kind, std::string_view name = "") {
  std::vector<trace::Event> found;
  for (const trace::Event& event : trace.events)
    if (event.kind == kind && (name.empty() || trace.name(event) == name)) found.push_back(event);
  return found;
}

std::vector<std::string> problems(const trace::Trace& trace) {
  std::vector<std::string> texts;
  for (const trace::Problem& problem : trace.problems)
    texts.push_back(fmt::format("{}: {}", problem.what, problem.count));
  return texts;
}

TEST(CuptiModule, WithoutAGpuTheTraceTellsWhyNoKernelIsSeen) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0) GTEST_SKIP() << "this machine has a GPU";
  device_in_use = true;
  Window window({});
  const trace::Trace trace = window.finish().trace;
  device_in_use = false;
  EXPECT_THAT(problems(trace), ElementsAre("GPU kernels are not seen: CUDA tells of no device: 1"));
}

TEST_F(Cupti, KernelsAreTiedToTheirOpCallAndRanges) {
  Window window({});
  {
    Range range("forward");
    Scope op(EventKind::cpu_op, "ep::spin");
    launch(1000);
    launch(1000);
  }
  cudaDeviceSynchronize();
  const WindowResult result = window.finish();
  const trace::Trace& trace = result.trace;
  EXPECT_THAT(problems(trace), IsEmpty());
  EXPECT_EQ(result.dropped, 0);
  const auto ops = events(trace, EventKind::cpu_op), ranges = events(trace, EventKind::user_annotation);
  const auto kernels = events(trace, EventKind::kernel, "spin(unsigned int)");
  const auto calls = events(trace, EventKind::cuda_runtime, "cudaLaunchKernel");
  const auto device_ranges = events(trace, EventKind::gpu_user_annotation, "forward");
  ASSERT_EQ(ops.size(), 1u);
  ASSERT_EQ(kernels.size(), 2u);
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_THAT(events(trace, EventKind::cuda_driver), IsEmpty()) << "the runtime's own calls of the driver";
  ASSERT_EQ(device_ranges.size(), 1u);
  for (const auto& event : {kernels[0], kernels[1], calls[0], calls[1]})
    EXPECT_EQ(event.external_id, ops[0].external_id);
  EXPECT_EQ(kernels[0].correlation, calls[0].correlation);
  EXPECT_EQ(calls[0].detail, 211u);  // cudaLaunchKernel's number, as in PyTorch's traces
  EXPECT_EQ(calls[0].track, ops[0].track);
  EXPECT_GE(calls[0].start_ns, ops[0].start_ns);
  EXPECT_LE(calls[1].end_ns(), ops[0].end_ns());
  EXPECT_GE(kernels[0].start_ns, calls[0].start_ns);
  EXPECT_EQ(device_ranges[0].start_ns, kernels[0].start_ns);
  EXPECT_EQ(device_ranges[0].end_ns(), kernels[1].end_ns());
  const trace::Launch& launch = trace.launches.at(kernels[0].detail);
  EXPECT_EQ(launch.grid, (std::array<int32_t, 3>{4, 2, 1}));
  EXPECT_EQ(launch.block, (std::array<int32_t, 3>{64, 2, 1}));
  EXPECT_GT(launch.registers_per_thread, 0);
  EXPECT_EQ(events(trace, EventKind::cuda_sync, "Context Sync").size(), 1u);
  EXPECT_FALSE(trace.devices.empty());
  EXPECT_THAT(trace.metadata, Contains(Key("cupti_version")));
  EXPECT_THAT(trace.metadata, Contains(Key("cuda_driver_version")));
}

TEST_F(Cupti, KernelTimesAgreeWithCudaEvents) {
  cudaEvent_t begin{}, end{};
  ASSERT_CUDA(cudaEventCreate(&begin));
  ASSERT_CUDA(cudaEventCreate(&end));
  Window window({});
  launch(20000);  // the device is busy while the rest is launched: no time passes between them
  cudaEventRecord(begin, stream_);
  launch(20000);
  cudaEventRecord(end, stream_);
  ASSERT_CUDA(cudaDeviceSynchronize());
  float ms = 0;
  ASSERT_CUDA(cudaEventElapsedTime(&ms, begin, end));
  const trace::Trace trace = window.finish().trace;
  const auto kernels = events(trace, EventKind::kernel);
  ASSERT_EQ(kernels.size(), 2u);
  const double us = static_cast<double>(kernels[1].duration_ns) / 1e3;
  RecordProperty("cupti_us", fmt::format("{:.3f}", us));
  RecordProperty("cuda_event_us", fmt::format("{:.3f}", ms * 1e3));
  EXPECT_NEAR(us, static_cast<double>(ms) * 1e3, 0.03 * us);
}

TEST_F(Cupti, CopiesAndMemsetsBearKinetosNamesAndTheirBytes) {
  constexpr size_t kBytes = 1 << 20;
  void *device = nullptr, *pinned = nullptr;
  ASSERT_CUDA(cudaMalloc(&device, kBytes));
  ASSERT_CUDA(cudaMallocHost(&pinned, kBytes));
  Window window({});
  cudaMemsetAsync(device, 0, kBytes, stream_);
  cudaMemcpyAsync(device, pinned, kBytes, cudaMemcpyHostToDevice, stream_);
  cudaMemcpyAsync(pinned, device, kBytes, cudaMemcpyDeviceToHost, stream_);
  const trace::Trace trace = window.finish().trace;
  for (const char* name : {"Memcpy HtoD (Pinned -> Device)", "Memcpy DtoH (Device -> Pinned)"}) {
    const auto copies = events(trace, EventKind::gpu_memcpy, name);
    ASSERT_EQ(copies.size(), 1u) << name;
    EXPECT_EQ(trace.copies.at(copies[0].detail).bytes, kBytes);
    EXPECT_GT(trace.copies.at(copies[0].detail).gb_per_s, 0);
  }
  EXPECT_EQ(events(trace, EventKind::gpu_memset, "Memset (Device)").size(), 1u);
  EXPECT_THAT(problems(trace), IsEmpty());
  cudaFreeHost(pinned);
  cudaFree(device);
}

TEST_F(Cupti, AGraphsKernelsAreTiedToItsReplay) {
  cudaGraph_t graph{};
  cudaGraphExec_t replay{};
  ASSERT_CUDA(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
  launch(100);
  launch(100);
  ASSERT_CUDA(cudaStreamEndCapture(stream_, &graph));
  ASSERT_CUDA(cudaGraphInstantiate(&replay, graph, 0));
  Window window({});
  {
    Scope op(EventKind::cpu_op, "ep::replay");
    ASSERT_CUDA(cudaGraphLaunch(replay, stream_));
  }
  const trace::Trace trace = window.finish().trace;
  const auto kernels = events(trace, EventKind::kernel);
  const auto ops = events(trace, EventKind::cpu_op);
  ASSERT_EQ(kernels.size(), 2u);
  for (const auto& kernel : kernels) {
    EXPECT_EQ(kernel.external_id, ops.at(0).external_id);
    EXPECT_NE(trace.launches.at(kernel.detail).graph, 0u);
  }
  EXPECT_NE(trace.launches.at(kernels[0].detail).graph_node, trace.launches.at(kernels[1].detail).graph_node);
  EXPECT_THAT(problems(trace), IsEmpty());
  cudaGraphExecDestroy(replay);
  cudaGraphDestroy(graph);
}

TEST_F(Cupti, ThreadsKeepTheirCallsApart) {
  Window window({});
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([this, t] {
      for (int i = 0; i < 50; ++i) {
        Scope op(EventKind::cpu_op, fmt::format("ep::op{}", t));
        launch(10);
      }
    });
  threads.clear();
  const trace::Trace trace = window.finish().trace;
  EXPECT_THAT(problems(trace), IsEmpty());
  std::map<uint64_t, int> kernels;  // by op
  for (const trace::Event& kernel : events(trace, EventKind::kernel)) ++kernels[kernel.external_id];
  const auto ops = events(trace, EventKind::cpu_op);
  ASSERT_EQ(ops.size(), 200u);
  for (const trace::Event& op : ops) EXPECT_EQ(kernels[op.external_id], 1) << trace.name(op);
}

// With the tracer detached in between, and without.
TEST_F(Cupti, EveryWindowSeesItsOwnKernelsAlone) {
  for (int round = 0; round < 6; ++round) {
    Window window({});
    for (int i = 0; i <= round; ++i) launch(10);
    const trace::Trace trace = window.finish().trace;
    EXPECT_EQ(events(trace, EventKind::kernel).size(), static_cast<size_t>(round + 1)) << round;
    EXPECT_THAT(problems(trace), IsEmpty()) << round;
    if (round % 2 == 1) detach_device_tracer();
    launch(10);  // in no window
  }
}

TEST_F(Cupti, TheWarmUpsKernelsAreLeftOut) {
  std::optional<Window> warmup(std::in_place, ProfilerOptions{});
  launch(20000);
  warmup.reset();
  Window window({});
  launch(10);
  const trace::Trace trace = window.finish().trace;
  EXPECT_EQ(events(trace, EventKind::kernel).size(), 1u);
  EXPECT_THAT(problems(trace), IsEmpty());
}

// The figures are for the reader; a machine's noise is not this test's business: one calm round of three is
// enough.
TEST_F(Cupti, LaunchesCostWhatTheyDidOnceDetached) {
  launch_us(2000);
  double least = 1e9;
  for (int round = 0; round < 3; ++round) {
    const double before = launch_us(5000);
    double during = 0;
    {
      Window window({});
      during = launch_us(5000);
      window.finish();
    }
    detach_device_tracer();
    launch_us(500);
    const double after = launch_us(5000);
    fmt::print("launch, median: {:.3f} us before, {:.3f} us in a window, {:.3f} us after ({:+.1f}%)\n",
               before, during, after, 100 * (after / before - 1));
    least = std::min(least, after / before);
  }
  EXPECT_LT(least, 1.1);
}

}  // namespace
}  // namespace epilogue::profile
