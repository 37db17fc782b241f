// Windows with a device, whose tracer is a stand-in that hands over what a test plans.
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/check.h"
#include "epilogue/profiler.h"
#include "profile/clock.h"
#include "profile/device_tracer.h"
#include "profile/event.h"
#include "profile/window.h"
#include "trace/links.h"

namespace epilogue::profile {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;
using trace::EventKind;

constexpr uint32_t kLaunchKernelId = 211;

class PlannedTracer final : public DeviceTracer {
 public:
  PlannedTracer() { set_device_tracer(this); }
  ~PlannedTracer() override { set_device_tracer(nullptr); }

  void attach() override {
    EP_CHECK(refusal.empty(), "{}", refusal);
    ++attaches;
    attached = true;
  }
  DeviceRecords take() override {
    ++takes;
    return std::exchange(records, {});
  }
  void detach() noexcept override { attached = false; }

  DeviceRecord& add(EventKind kind, const char* name, uint64_t start, uint64_t end, uint32_t correlation) {
    records.records.push_back({.kind = kind,
                               .start = start,
                               .end = end,
                               .name = records.names.intern(name),
                               .correlation = correlation});
    return records.records.back();
  }

  // A call on this thread, here and now.
  void call(uint32_t correlation, const char* name = "cudaLaunchKernel") {
    const uint64_t start = ticks_now();
    calls_over_ = 0;
    DeviceRecord& made = add(EventKind::cuda_runtime, name, start, start + 1, correlation);
    made.lane = gettid();
    made.detail = kLaunchKernelId;
    while (ticks_now() <= made.end) {
    }
  }

  // Work of device 0, some ticks after the calls so far: the order of works is the plan's, however slowly
  // this thread runs.
  DeviceRecord& work(EventKind kind, const char* name, uint32_t correlation, uint64_t after, uint64_t ticks,
                     int64_t stream = 7) {
    if (calls_over_ == 0) calls_over_ = ticks_now();
    const uint64_t start = calls_over_ + after;
    DeviceRecord& done = add(kind, name, start, start + ticks, correlation);
    done.lane = stream;
    return done;
  }

  std::string refusal;
  DeviceRecords records;
  int attaches = 0, takes = 0;
  bool attached = false;

 private:
  uint64_t calls_over_ = 0;
};

std::vector<trace::Event> events(const trace::Trace& trace, EventKind kind) {
  std::vector<trace::Event> found;
  for (const trace::Event& event : trace.events)
    if (event.kind == kind) found.push_back(event);
  return found;
}

std::vector<std::string> problems(const trace::Trace& trace) {
  std::vector<std::string> texts;
  for (const trace::Problem& problem : trace.problems) texts.push_back(problem.what);
  return texts;
}

TEST(DeviceWindow, CallsBelongToTheInnermostOpOfTheirThread) {
  PlannedTracer tracer;
  Window window({});
  {
    Scope outer(EventKind::cpu_op, "ep::linear");
    tracer.call(1);
    {
      Scope inner(EventKind::cpu_op, "ep::mm");
      tracer.call(2);
    }
    tracer.call(3);
  }
  tracer.call(4);
  const trace::Trace trace = window.finish().trace;
  const auto ops = events(trace, EventKind::cpu_op), calls = events(trace, EventKind::cuda_runtime);
  ASSERT_THAT(ops, SizeIs(2));
  ASSERT_THAT(calls, SizeIs(4));
  EXPECT_EQ(calls[0].external_id, ops[0].external_id);
  EXPECT_EQ(calls[1].external_id, ops[1].external_id);
  EXPECT_EQ(calls[2].external_id, ops[0].external_id);
  EXPECT_EQ(calls[3].external_id, 0u);
  EXPECT_EQ(calls[0].track, ops[0].track);
  EXPECT_EQ(calls[0].detail, kLaunchKernelId);
  EXPECT_EQ(trace.name(calls[0]), "cudaLaunchKernel");
}

TEST(DeviceWindow, WorkBearsTheOpOfItsCall) {
  PlannedTracer tracer;
  Window window({});
  {
    Scope op(EventKind::cpu_op, "ep::mm");
    tracer.call(1);
    tracer.call(2, "cudaMemsetAsync");
  }
  tracer.work(EventKind::kernel, "gemm", 1, 0, 1000).detail = 0;
  tracer.work(EventKind::kernel, "gemm", 1, 5000, 1000).detail = 1;
  tracer.work(EventKind::gpu_memset, "Memset (Device)", 2, 9000, 1000).detail = 0;
  tracer.records.launches = {{.grid = {2, 66, 1}, .occupancy_percent = 19},
                             {.grid = {2, 66, 1}, .occupancy_percent = 19}};
  tracer.records.copies = {{.bytes = 4096}};
  const trace::Trace trace = window.finish().trace;
  const auto ops = events(trace, EventKind::cpu_op), kernels = events(trace, EventKind::kernel),
             sets = events(trace, EventKind::gpu_memset);
  ASSERT_THAT(kernels, SizeIs(2));
  ASSERT_THAT(sets, SizeIs(1));
  for (const trace::Event& event : {kernels[0], kernels[1], sets[0]})
    EXPECT_EQ(event.external_id, ops.at(0).external_id);
  EXPECT_THAT(trace.launches, SizeIs(1)) << "equal launches are kept once";
  EXPECT_EQ(trace.launches[kernels[1].detail].occupancy_percent, 19);
  const trace::Copy& copy = trace.copies.at(sets[0].detail);
  EXPECT_EQ(copy.bytes, 4096);
  EXPECT_FLOAT_EQ(copy.gb_per_s, 4096.0f / static_cast<float>(sets[0].duration_ns));
  const trace::Track& track = trace.tracks.at(kernels[0].track);
  EXPECT_TRUE(track.device);
  EXPECT_EQ(track.process, 0);
  EXPECT_EQ(track.thread, 7);
  EXPECT_EQ(sets[0].track, kernels[0].track);
  EXPECT_THAT(problems(trace), IsEmpty());
}

TEST(DeviceWindow, RangesSpanTheirWorkOnEachStream) {
  PlannedTracer tracer;
  Window window({});
  {
    Range step("step");
    {
      Range forward("forward");
      tracer.call(1);
      tracer.call(2);
    }
    tracer.call(3);
  }
  tracer.call(4);
  for (const uint32_t correlation : {1u, 3u, 4u})
    tracer.work(EventKind::kernel, "k", correlation, correlation * 10000, 1000);
  tracer.work(EventKind::kernel, "k", 2, 20000, 1000, 9);
  const trace::Trace trace = window.finish().trace;
  const auto kernels = events(trace, EventKind::kernel);  // of calls 1, 2, 3, 4
  ASSERT_THAT(kernels, SizeIs(4));
  const auto ranges = events(trace, EventKind::gpu_user_annotation);
  ASSERT_THAT(ranges, SizeIs(4));
  int found = 0;
  for (const trace::Event& range : ranges) {
    const bool step = trace.name(range) == "step", second = range.track == kernels[1].track;
    const trace::Event &first = kernels[second ? 1 : 0], &last = kernels[second ? 1 : (step ? 2 : 0)];
    EXPECT_EQ(range.start_ns, first.start_ns);
    EXPECT_EQ(range.end_ns(), last.end_ns());
    for (const trace::Event& host : events(trace, EventKind::user_annotation)) {
      if (host.name != range.name) continue;
      EXPECT_EQ(host.external_id, range.external_id);
      ++found;
    }
  }
  EXPECT_EQ(found, 4);
}

TEST(DeviceWindow, ARangeThatEndedDoesNotHoldWhatComesAfterIt) {
  PlannedTracer tracer;
  Window window({});
  std::optional<Range> first(std::in_place, "first");
  Range second("second");
  first.reset();  // before the one it was opened around
  tracer.call(1);
  tracer.work(EventKind::kernel, "k", 1, 0, 10);
  const trace::Trace trace = window.finish().trace;
  const auto ranges = events(trace, EventKind::gpu_user_annotation);
  ASSERT_THAT(ranges, SizeIs(1));
  EXPECT_EQ(trace.name(ranges[0]), "second");
}

TEST(DeviceWindow, WhatTheWarmUpLaunchedIsLeftOut) {
  PlannedTracer tracer;
  std::optional<Window> warmup(ProfilerOptions{});
  tracer.call(1);
  tracer.work(EventKind::kernel, "late", 1, 1'000'000'000, 10);
  warmup.reset();
  Window window({});
  tracer.call(2);
  tracer.work(EventKind::kernel, "own", 2, 0, 10);
  const trace::Trace trace = window.finish().trace;
  const auto kernels = events(trace, EventKind::kernel);
  ASSERT_THAT(kernels, SizeIs(1));
  EXPECT_EQ(trace.name(kernels[0]), "own");
  EXPECT_THAT(events(trace, EventKind::cuda_runtime), SizeIs(1));
  EXPECT_THAT(problems(trace), IsEmpty());
  EXPECT_EQ(tracer.takes, 1);
}

TEST(DeviceWindow, WorkWithoutItsCallIsKeptAndCounted) {
  PlannedTracer tracer;
  Window window({});
  const uint64_t start = ticks_now();
  tracer.add(EventKind::kernel, "orphan", start, start + 10, 77);
  while (ticks_now() <= start + 10) {
  }
  const trace::Trace trace = window.finish().trace;
  EXPECT_THAT(events(trace, EventKind::kernel), SizeIs(1));
  EXPECT_THAT(problems(trace), ElementsAre(HasSubstr("without the call that launched them")));
}

TEST(DeviceWindow, AThreadWithoutEventsHasItsOwnTrack) {
  PlannedTracer tracer;
  Window window({});
  int64_t thread_id = 0;
  std::thread([&] {
    thread_id = gettid();
    tracer.call(1);
  }).join();
  { Scope op(EventKind::cpu_op, "ep::mm"); }
  const trace::Trace trace = window.finish().trace;
  const auto calls = events(trace, EventKind::cuda_runtime);
  ASSERT_THAT(calls, SizeIs(1));
  EXPECT_EQ(trace.tracks.at(calls[0].track).thread, thread_id);
  EXPECT_EQ(calls[0].external_id, 0u);
}

TEST(DeviceWindow, WaitsAndOverheadHaveKinetosPlaces) {
  PlannedTracer tracer;
  Window window({});
  tracer.call(1, "cudaDeviceSynchronize");
  const uint64_t start = ticks_now();
  tracer.add(EventKind::cuda_sync, "Context Sync", start, start + 1, 1).lane = -1;
  tracer.add(EventKind::overhead, "Buffer Flush", start, start + 1, 0).lane = 42;
  while (ticks_now() <= start + 1) {
  }
  const trace::Trace trace = window.finish().trace;
  const auto waits = events(trace, EventKind::cuda_sync), overhead = events(trace, EventKind::overhead);
  ASSERT_THAT(waits, SizeIs(1));
  ASSERT_THAT(overhead, SizeIs(1));
  EXPECT_TRUE(trace.tracks.at(waits[0].track).device);
  EXPECT_EQ(trace.tracks.at(waits[0].track).thread, -1);
  EXPECT_EQ(trace.tracks.at(overhead[0].track).process, -1);
  EXPECT_EQ(trace.tracks.at(overhead[0].track).thread, 42);
  EXPECT_THAT(problems(trace), IsEmpty());
}

TEST(DeviceWindow, DropsPropertiesAndMetadataAreHandedOn) {
  PlannedTracer tracer;
  Window window({});
  tracer.records.dropped = 12;
  tracer.records.devices = {{.name = "NVIDIA H200"}};
  tracer.records.metadata = {{"cupti_version", "130001"}};
  tracer.records.problems = {{"a problem of its own", 3}};
  const WindowResult result = window.finish();
  EXPECT_EQ(result.dropped, 12);
  EXPECT_EQ(result.trace.devices.at(0).name, "NVIDIA H200");
  EXPECT_THAT(result.trace.metadata, ElementsAre(Pair("cupti_version", "130001")));
  EXPECT_THAT(problems(result.trace),
              ElementsAre("a problem of its own", HasSubstr("device records dropped")));
}

TEST(DeviceWindow, ATracerThatCannotAttachIsToldAndNothingFails) {
  PlannedTracer tracer;
  tracer.refusal = "another profiler is attached";
  Window window({});
  { Scope op(EventKind::cpu_op, "ep::mm"); }
  const trace::Trace trace = window.finish().trace;
  EXPECT_THAT(events(trace, EventKind::cpu_op), SizeIs(1));
  EXPECT_THAT(problems(trace), ElementsAre("GPU kernels are not seen: another profiler is attached"));
  EXPECT_EQ(tracer.takes, 0);
}

TEST(DeviceWindow, TheTracerStaysFromWarmUpToRecordingAndLeavesBeforeTheWait) {
  PlannedTracer tracer;
  std::vector<bool> attached;
  Profiler profiler({.schedule = Schedule{.wait = 1, .warmup = 1, .active = 1, .repeat = 2}});
  profiler.start();
  for (int step = 0; step < 6; ++step) {
    attached.push_back(tracer.attached);
    profiler.step();
  }
  profiler.stop();
  EXPECT_THAT(attached, ElementsAre(false, true, true, false, true, true));
  EXPECT_FALSE(tracer.attached);
  EXPECT_EQ(tracer.takes, 2);
}

TEST(DeviceWindow, TheTracerLeavesWithTheProfiler) {
  PlannedTracer tracer;
  {
    Profiler profiler;
    profiler.start();
    EXPECT_TRUE(tracer.attached);
  }
  EXPECT_FALSE(tracer.attached);
  Profiler profiler;
  profiler.start();
  profiler.stop();
  EXPECT_FALSE(tracer.attached);
}

TEST(Clock, NanosecondsTurnBackIntoTheirTicks) {
  const uint64_t before = ticks_now();
  const uint64_t ns = clock_ns_now();
  const uint64_t after = ticks_now();
  const uint64_t ticks = clock_ns_to_ticks(ns);
  EXPECT_GE(ticks + 8, before);  // a nanosecond is a few ticks
  EXPECT_LE(ticks, after + 8);
  const ClockReading now = read_clocks();
  EXPECT_NEAR(static_cast<double>(clock_ns_to_ticks(ns + 1'000'000) - ticks) * ns_per_tick(now, now), 1e6,
              1e3);
}

}  // namespace
}  // namespace epilogue::profile
