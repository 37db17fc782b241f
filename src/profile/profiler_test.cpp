#include "epilogue/profiler.h"

#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "profile/event.h"

namespace epilogue {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> names(const Profiler& profiler) {
  std::vector<std::string> names;
  for (const trace::Event& event : profiler.trace().events) names.emplace_back(profiler.trace().name(event));
  return names;
}

std::string start_error(Profiler& profiler) {
  try {
    profiler.start();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Profiler, RangeWithoutProfilerRecordsNothing) {
  { Range before("before"); }
  Profiler profiler;
  profiler.start();
  profiler.stop();
  { Range after("after"); }
  EXPECT_THAT(names(profiler), IsEmpty());
}

TEST(Profiler, WithoutScheduleOneWindowFromStartToStop) {
  int ready = 0;
  Profiler profiler({.on_trace_ready = [&](Profiler&) { ++ready; }});
  profiler.start();
  { Range a("a"); }
  profiler.step();
  { Range b("b"); }
  EXPECT_EQ(ready, 0);
  profiler.stop();
  EXPECT_EQ(ready, 1);
  EXPECT_THAT(names(profiler), ElementsAre("a", "b"));
}

TEST(Profiler, ScheduledWindowsHoldTheirOwnStepsAlone) {
  std::vector<std::vector<std::string>> windows;
  Profiler profiler({.schedule = Schedule{.wait = 1, .warmup = 1, .active = 2, .repeat = 2, .skip_first = 1},
                     .on_trace_ready = [&](Profiler& p) { windows.push_back(names(p)); }});
  profiler.start();
  for (int step = 0; step < 12; ++step) {
    { Range range(fmt::format("work{}", step)); }
    profiler.step();
  }
  profiler.stop();
  EXPECT_THAT(windows, ElementsAre(ElementsAre("ProfilerStep#3", "work3", "ProfilerStep#4", "work4"),
                                   ElementsAre("ProfilerStep#7", "work7", "ProfilerStep#8", "work8")));
}

TEST(Profiler, AdjacentWindowsCutAtTheStep) {
  std::vector<std::vector<std::string>> windows;
  Profiler profiler({.schedule = Schedule{.active = 1},
                     .on_trace_ready = [&](Profiler& p) { windows.push_back(names(p)); }});
  profiler.start();
  { Range range("first"); }
  profiler.step();
  { Range range("second"); }
  profiler.stop();
  EXPECT_THAT(windows,
              ElementsAre(ElementsAre("ProfilerStep#0", "first"), ElementsAre("ProfilerStep#1", "second")));
}

TEST(Profiler, StopInTheMiddleOfAWindowSavesIt) {
  int ready = 0;
  Profiler profiler({.schedule = Schedule{.active = 5}, .on_trace_ready = [&](Profiler&) { ++ready; }});
  profiler.start();
  profiler.step();
  profiler.stop();
  EXPECT_EQ(ready, 1);
  EXPECT_THAT(names(profiler), ElementsAre("ProfilerStep#0", "ProfilerStep#1"));
}

TEST(Profiler, StopWhileWarmingUpSavesNothing) {
  int ready = 0;
  Profiler profiler({.schedule = Schedule{.warmup = 2}, .on_trace_ready = [&](Profiler&) { ++ready; }});
  profiler.start();
  profiler.stop();
  EXPECT_EQ(ready, 0);
  EXPECT_THROW(profiler.trace(), Error);
}

TEST(Profiler, OnlyOneRunsAtATime) {
  Profiler first, second;
  first.start();
  EXPECT_THAT(start_error(second), HasSubstr("another profiler is running"));
  EXPECT_THAT(start_error(first), HasSubstr("this profiler is running"));
  first.stop();
  EXPECT_EQ(start_error(second), "");
}  // ~Profiler stops the second

TEST(Profiler, DestructionStopsWithoutCallback) {
  int ready = 0;
  {
    Profiler profiler({.on_trace_ready = [&](Profiler&) { ++ready; }});
    profiler.start();
  }
  EXPECT_EQ(ready, 0);
  EXPECT_EQ(profile::recording.load(), 0u);
  Profiler next;
  EXPECT_EQ(start_error(next), "");
}

TEST(Profiler, StepFromItsOwnCallbackIsAnError) {
  Profiler profiler(
      {.schedule = Schedule{.active = 1}, .on_trace_ready = [](Profiler& ready) { ready.step(); }});
  profiler.start();
  EXPECT_THROW(profiler.step(), Error);
}

TEST(Profiler, StepAndStopNeedAStart) {
  Profiler profiler;
  EXPECT_THROW(profiler.step(), Error);
  EXPECT_THROW(profiler.stop(), Error);
}

TEST(Profiler, BadScheduleThrowsAndLeavesRoomForTheNext) {
  Profiler bad({.schedule = Schedule{.active = 0}});
  EXPECT_THROW(bad.start(), Error);
  Profiler good;
  EXPECT_EQ(start_error(good), "");
}

TEST(Profiler, ThrowingCallbackDoesNotDisturbTheNextWindow) {
  int ready = 0;
  Profiler profiler({.schedule = Schedule{.active = 1, .repeat = 2}, .on_trace_ready = [&](Profiler&) {
                       if (++ready == 1) throw std::runtime_error("disk full");
                     }});
  profiler.start();
  EXPECT_THROW(profiler.step(), std::runtime_error);
  profiler.step();
  profiler.stop();
  EXPECT_EQ(ready, 2);
  EXPECT_THAT(names(profiler), ElementsAre("ProfilerStep#1"));
}

TEST(Profiler, CallbackMayStopTheProfiler) {
  Profiler profiler({.schedule = Schedule{.active = 1}, .on_trace_ready = [](Profiler& p) { p.stop(); }});
  profiler.start();
  profiler.step();
  EXPECT_EQ(profile::recording.load(), 0u);
  EXPECT_THROW(profiler.step(), Error);
}

TEST(Profiler, AveragesAndDropsAreTheWindows) {
  Profiler profiler({.max_events_per_thread = 5});
  EXPECT_THROW(profiler.key_averages(), Error);
  EXPECT_THROW(profiler.dropped(), Error);
  profiler.start();
  for (int i = 0; i < 8; ++i) Range range("work");
  profiler.stop();
  const KeyAverages averages = profiler.key_averages();
  ASSERT_EQ(averages.rows.size(), 1u);
  EXPECT_EQ(averages.rows[0].name, "work");
  EXPECT_EQ(averages.rows[0].calls, 5);
  EXPECT_EQ(averages.dropped, 3);
  EXPECT_EQ(profiler.dropped(), 3);
}

TEST(Profiler, TableOfNothingButDroppedEventsTellsOfThem) {
  Profiler profiler({.max_events_per_thread = 0});
  profiler.start();
  for (int i = 0; i < 20; ++i) Range range("work");
  profiler.stop();
  EXPECT_EQ(profiler.dropped(), 20);
  EXPECT_EQ(profiler.key_averages().table(), "Dropped events: 20 (the buffers were full)\n");
}

TEST(Profiler, ExportedTraceReadsBackAsItWas) {
  Profiler profiler({.schedule = Schedule{.active = 1}, .profile_memory = true});
  profiler.start();
  {
    Range range("a \"quoted\" range");
    profile::Scope op(trace::EventKind::cpu_op, "ep::mm");
    profile::Scope kernel(trace::EventKind::cpu_kernel, "gemm");
    profile::set_work(kernel.slot(), 0, 96, 2);
    profile::record_memory({}, &profiler, 64, 64, 4096);
  }
  profiler.stop();
  const std::string path = testing::TempDir() + "profiler_test.json.gz";
  profiler.export_chrome_trace(path);
  const trace::Trace back = trace::read_trace(path);
  std::remove(path.c_str());
  const trace::Trace& made = profiler.trace();
  ASSERT_EQ(back.events.size(), made.events.size());
  for (size_t i = 0; i < made.events.size(); ++i) {
    const trace::Event &expected = made.events[i], &read = back.events[i];
    EXPECT_EQ(back.name(read), made.name(expected));
    EXPECT_EQ(read.kind, expected.kind);
    EXPECT_EQ(read.start_ns + back.base_ns, expected.start_ns + made.base_ns);
    EXPECT_EQ(read.duration_ns, expected.duration_ns);
    EXPECT_EQ(read.external_id, expected.external_id);
  }
  EXPECT_EQ(back.work, made.work);
  ASSERT_EQ(back.memories.size(), 1u);
  EXPECT_EQ(back.memories[0].address, made.memories[0].address);
}

TEST(Profiler, StartsAgainFromStepZero) {
  Profiler profiler({.schedule = Schedule{.active = 2}});
  for (int round = 0; round < 2; ++round) {
    profiler.start();
    profiler.step();
    profiler.stop();
    EXPECT_THAT(names(profiler), ElementsAre("ProfilerStep#0", "ProfilerStep#1"));
  }
}

}  // namespace
}  // namespace epilogue
