#include "profile/window.h"

#include <atomic>
#include <chrono>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <pthread.h>
#include <unistd.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "profile/event.h"

namespace epilogue::profile {
namespace {

using testing::ElementsAre;
using testing::Pair;
using trace::EventKind;

std::vector<std::string> names(const trace::Trace& trace) {
  std::vector<std::string> names;
  for (const trace::Event& event : trace.events) names.emplace_back(trace.name(event));
  return names;
}

TEST(Window, NestedScopesNestInTime) {
  Window window({});
  {
    Scope outer(EventKind::cpu_op, "outer");
    { Scope first(EventKind::cpu_op, "first"); }
    { Scope second(EventKind::cpu_op, "second"); }
  }
  const trace::Trace trace = window.finish().trace;
  ASSERT_THAT(names(trace), ElementsAre("outer", "first", "second"));
  const trace::Event &outer = trace.events[0], &first = trace.events[1], &second = trace.events[2];
  EXPECT_LE(outer.start_ns, first.start_ns);
  EXPECT_LE(first.end_ns(), second.start_ns);
  EXPECT_LE(second.end_ns(), outer.end_ns());
}

TEST(Window, TimesAreThoseOfTheSystemsClocks) {
  const auto unix_ns = [] {
    return std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
  };
  Window window({});
  const int64_t before_start = unix_ns();
  Slot* slot = open_event(EventKind::cpu_op, "sleep");
  const int64_t after_start = unix_ns();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const int64_t before_end = unix_ns();
  close_event(slot);
  const int64_t after_end = unix_ns();
  const trace::Trace trace = window.finish().trace;
  const trace::Event& event = trace.events.at(0);
  constexpr int64_t kNear = 2'000'000;
  EXPECT_GE(event.duration_ns, 19'990'000);
  EXPECT_GE(trace.base_ns + event.start_ns, before_start - kNear);
  EXPECT_LE(trace.base_ns + event.start_ns, after_start + kNear);
  EXPECT_GE(trace.base_ns + event.end_ns(), before_end - kNear);
  EXPECT_LE(trace.base_ns + event.end_ns(), after_end + kNear);
}

TEST(Window, KernelsBearTheNumberOfTheirOp) {
  Window window({.with_flops = true});
  {
    Scope outer(EventKind::cpu_op, "ep::linear");
    {
      Scope inner(EventKind::cpu_op, "ep::mm");
      Scope kernel(EventKind::cpu_kernel, "chosen later");
      set_name(kernel.slot(), "onednn_brgemm");
      set_work(kernel.slot(), 4096, 512, 2);
    }
    Scope kernel(EventKind::cpu_kernel, "copy");
    set_work(kernel.slot(), 4096, 512, 2);
  }
  const trace::Trace trace = window.finish().trace;
  ASSERT_THAT(names(trace), ElementsAre("ep::linear", "ep::mm", "onednn_brgemm", "copy"));
  const std::vector<trace::Event>& events = trace.events;
  EXPECT_NE(events[0].external_id, events[1].external_id);
  EXPECT_EQ(events[2].external_id, events[1].external_id);
  EXPECT_EQ(events[3].external_id, events[0].external_id);
  EXPECT_THAT(trace.work, ElementsAre(trace::Work{.flops = 4096, .bytes = 512, .threads = 2}));
  EXPECT_EQ(events[2].detail, events[3].detail);
  EXPECT_THAT(trace.metadata, ElementsAre(Pair("with_flops", "1")));
}

TEST(Window, FlopsAreLeftOutUnlessAskedFor) {
  Window window({});
  {
    Scope kernel(EventKind::cpu_kernel, "k");
    set_work(kernel.slot(), 4096, 512, 2);
  }
  EXPECT_THAT(window.finish().trace.work, ElementsAre(trace::Work{.flops = 0, .bytes = 512, .threads = 2}));
}

TEST(Window, FullBufferCountsWhatItDrops) {
  Window window({.max_events_per_thread = 1000});
  for (int i = 0; i < 1500; ++i) Range range(fmt::format("r{}", i));
  const WindowResult result = window.finish();
  EXPECT_EQ(result.trace.events.size(), 1000u);
  EXPECT_EQ(result.trace.name(result.trace.events.back()), "r999");
  EXPECT_EQ(result.dropped, 500);
  ASSERT_EQ(result.trace.problems.size(), 1u);
  EXPECT_EQ(result.trace.problems[0].count, 500);
}

TEST(Window, EventsOpenAtTheEndAreCutAndOnlyOpsAreAProblem) {
  std::optional<Window> window(ProfilerOptions{});
  Range range("range");
  Scope op(EventKind::cpu_op, "op");
  const trace::Trace trace = window->finish().trace;
  ASSERT_THAT(names(trace), ElementsAre("range", "op"));
  EXPECT_EQ(trace.events[0].end_ns(), trace.events[1].end_ns());
  ASSERT_EQ(trace.problems.size(), 1u);
  EXPECT_EQ(trace.problems[0].count, 1);
}

TEST(Window, AnEndThatComesAWindowLateTouchesNothing) {
  std::optional<Range> late;
  {
    Window window({});
    late.emplace("late");
    EXPECT_THAT(names(window.finish().trace), ElementsAre("late"));
  }
  Window window({});
  Slot* slot = open_event(EventKind::user_annotation, "current");
  late.reset();
  const trace::Trace trace = window.finish().trace;
  close_event(slot);
  ASSERT_THAT(names(trace), ElementsAre("current"));
  const int64_t window_end = trace.events[0].end_ns();
  EXPECT_GT(window_end, trace.events[0].start_ns);
}

TEST(Window, ARangeThatBeganBeforeIsNotInIt) {
  std::optional<Range> early(std::in_place, "early");
  Window window({});
  early.reset();
  { Range range("inside"); }
  EXPECT_THAT(names(window.finish().trace), ElementsAre("inside"));
}

TEST(Window, AnExceptionEndsItsScopes) {
  Window window({});
  try {
    Scope outer(EventKind::cpu_op, "outer");
    Scope inner(EventKind::cpu_op, "inner");
    throw std::runtime_error("in the op");
  } catch (const std::runtime_error&) {
    Range handler("handler");
  }
  const trace::Trace trace = window.finish().trace;
  ASSERT_THAT(names(trace), ElementsAre("outer", "inner", "handler"));
  EXPECT_LE(trace.events[1].end_ns(), trace.events[2].start_ns);
  EXPECT_TRUE(trace.problems.empty());
}

TEST(Window, MemoryEventsOnlyWhenAskedFor) {
  const int here = 0;
  {
    Window window({});
    record_memory({}, &here, 64, 64, 64);
    EXPECT_TRUE(window.finish().trace.events.empty());
  }
  Window window({.profile_memory = true});
  record_memory({}, &here, 64, 64, 4096);
  record_memory({}, &here, -64, 0, 4096);
  const trace::Trace trace = window.finish().trace;
  ASSERT_THAT(names(trace), ElementsAre("[memory]", "[memory]"));
  const trace::Memory& freed = trace.memories.at(trace.events[1].detail);
  EXPECT_EQ(freed.bytes, -64);
  EXPECT_EQ(freed.total_allocated, 0);
  EXPECT_EQ(freed.total_reserved, 4096);
  EXPECT_EQ(freed.address, reinterpret_cast<uint64_t>(&here));
  EXPECT_EQ(trace.memories.at(trace.events[0].detail).bytes, 64);
}

TEST(Window, ThreadsThatEndedKeepTheirEventsAndNames) {
  Window window({});
  int64_t thread_id = 0;
  std::thread worker([&] {
    pthread_setname_np(pthread_self(), "worker");
    thread_id = gettid();
    Range range("in the worker");
  });
  worker.join();
  const trace::Trace trace = window.finish().trace;
  ASSERT_THAT(names(trace), ElementsAre("in the worker"));
  const trace::Track& track = trace.tracks.at(trace.events[0].track);
  EXPECT_EQ(track.process, getpid());
  EXPECT_EQ(track.thread, thread_id);
  EXPECT_EQ(trace.strings[track.name], fmt::format("thread {} (worker)", thread_id));
}

// Eight threads record without pause while windows open and close. Each thread counts its ranges, so every
// window must hold an unbroken run of each thread's numbers, and no number twice.
TEST(Window, ThreadsMayRecordWhileWindowsOpenAndClose) {
  std::atomic<int> ready{0};
  std::vector<std::jthread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&ready, t](std::stop_token stop) {
      for (int64_t i = 0; !stop.stop_requested(); ++i) {
        Scope op(EventKind::cpu_op, std::to_string(t));
        Scope kernel(EventKind::cpu_kernel, "unnamed");
        set_name(kernel.slot(), std::to_string(i));
        set_work(kernel.slot(), i, t, 1);
        record_memory({}, nullptr, i, 0, 0);
        if (i == 0) ++ready;
        if (i % 16 == 0) std::this_thread::yield();
      }
    });
  }
  while (ready < 8) std::this_thread::yield();
  std::map<int64_t, int64_t> last;  // by thread
  size_t kernels = 0;
  for (int round = 0; round < 15; ++round) {
    Window window({.profile_memory = true, .with_flops = true, .max_events_per_thread = 2000});
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    const trace::Trace trace = window.finish().trace;
    std::map<int64_t, int64_t> previous;
    for (const trace::Event& event : trace.events) {
      if (event.kind != EventKind::cpu_kernel || event.detail == trace::kNoDetail) continue;
      const trace::Work& work = trace.work.at(event.detail);
      ASSERT_EQ(trace.name(event), std::to_string(work.flops));
      if (previous.contains(work.bytes)) {
        ASSERT_EQ(work.flops, previous[work.bytes] + 1);
      } else if (last.contains(work.bytes)) {
        ASSERT_GT(work.flops, last[work.bytes]);
      }
      previous[work.bytes] = work.flops;
      ++kernels;
    }
    for (const auto& [thread, number] : previous) last[thread] = number;
  }
  EXPECT_GT(kernels, 100u);
}

}  // namespace
}  // namespace epilogue::profile
