#include "trace/gaps.h"

#include <chrono>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "real_traces.h"
#include "sanitized.h"
#include "trace/summary.h"
#include "trace/synthetic_trace.h"

namespace epilogue::trace {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST(Gaps, LongestFirstWithWhatTheHostDid) {
  Synthetic synthetic;
  synthetic.kernel(1, 5, 5);
  synthetic.op(8, 40);
  synthetic.call("cudaMalloc", 10, 30);
  synthetic.kernel(44, 50, 10);
  synthetic.kernel(55, 62, 3);
  order_events(synthetic.trace);
  const Trace& trace = synthetic.trace;
  const std::vector<Gap> gaps = find_gaps(trace, -1);
  ASSERT_EQ(gaps.size(), 2u);
  EXPECT_EQ(gaps[0].start_ns, 10000);
  EXPECT_EQ(gaps[0].duration_ns, 40000);
  EXPECT_EQ(trace.events[gaps[0].ended_by].start_ns, 50000);
  EXPECT_EQ(trace.name(trace.events[gaps[0].launched_by]), "aten::mm");
  EXPECT_EQ(trace.name(trace.events[gaps[0].host]), "cudaMalloc");
  EXPECT_EQ(gaps[0].host_ns, 30000);
  EXPECT_EQ(gaps[1].duration_ns, 2000);
  EXPECT_EQ(find_gaps(trace, 1).size(), 1u);
  const std::vector<Gap> unexplained = find_unexplained_gaps(trace);
  ASSERT_EQ(unexplained.size(), 2u);
  EXPECT_EQ(unexplained[0].duration_ns, 40000);
  EXPECT_EQ(unexplained[0].host, kNoEvent);
}

TEST(Gaps, NameThePythonFunctionThatCoversMostAndWhatNothingCovers) {
  Synthetic python;
  python.kernel(1, 2, 3);
  python.trace.events.push_back(
      event(EventKind::python_function, python.name("dataloader.py(12): __next__"), 10, 70));
  python.kernel(84, 85, 5);
  order_events(python.trace);
  const Gap covered = find_gaps(python.trace, -1).at(0);
  EXPECT_EQ(python.trace.name(python.trace.events[covered.host]), "dataloader.py(12): __next__");
  EXPECT_EQ(covered.host_ns, 70000);
  EXPECT_EQ(covered.unrecorded_ns, 9000) << "80 us less the function and the call that ended it";
  EXPECT_THAT(gaps_text(python.trace, -1), Not(HasSubstr("unrecorded")));
  Synthetic silent;
  silent.kernel(1, 2, 3);
  silent.op(10, 20);
  silent.kernel(84, 85, 5);
  order_events(silent.trace);
  EXPECT_THAT(gaps_text(silent.trace, -1), HasSubstr("ProfilerStep#1 (74%), 74% unrecorded"));
  EXPECT_THAT(gaps_json(silent.trace, -1), HasSubstr("\"unrecorded_us\":59.000"));
}

Synthetic two_steps_of_cpu_kernels() {
  Synthetic cpu;
  cpu.trace.events.push_back(event(EventKind::user_annotation, cpu.name("ProfilerStep#2"), 200, 100));
  for (const int64_t start : {10, 40, 210})
    cpu.trace.events.push_back(event(EventKind::cpu_kernel, cpu.name("k"), start, 5));
  order_events(cpu.trace);
  return cpu;
}

TEST(Gaps, WithoutADeviceTheyLieBetweenKernelsOfOneStep) {
  const Synthetic cpu = two_steps_of_cpu_kernels();
  const std::vector<Gap> gaps = find_gaps(cpu.trace, -1);
  ASSERT_EQ(gaps.size(), 1u);
  EXPECT_EQ(gaps[0].duration_ns, 25000);
  EXPECT_EQ(cpu.trace.name(cpu.trace.events[gaps[0].host]), "ProfilerStep#1");
}

TEST(Gaps, TheWaitForTheFirstKernelIsToldApart) {
  Synthetic cpu;
  EXPECT_EQ(find_first_wait(cpu.trace).longest_ns, -1);
  EXPECT_THAT(gaps_text(cpu.trace, -1), HasSubstr("no kernels, so no gaps"));
  cpu.trace.events.push_back(event(EventKind::user_annotation, cpu.name("ProfilerStep#2"), 200, 100));
  for (const int64_t start : {10, 220})
    cpu.trace.events.push_back(event(EventKind::cpu_kernel, cpu.name("k"), start, 5));
  order_events(cpu.trace);
  EXPECT_THAT(
      gaps_text(cpu.trace, -1),
      EndsWith(": no gaps\nNot among the gaps: at most 20.000us from a step's start to its first kernel.\n"));
  Synthetic device;
  device.kernel(10, 30, 10);
  device.kernel(20, 50, 10);
  order_events(device.trace);
  EXPECT_THAT(
      gaps_text(device.trace, -1),
      EndsWith("\nNot among the gaps: 30.000us from the first step's start to the device's first work.\n"));
  EXPECT_THAT(gaps_json(device.trace, -1), HasSubstr("\"first_wait_us\":30.000"));
}

TEST(Gaps, AreToldFromTheFirstStepsStartWithTheirStep) {
  Synthetic late;
  late.trace.events[0].start_ns = 50'000;
  late.trace.events.push_back(event(EventKind::cpu_op, late.name("before"), 10, 5));
  late.kernel(55, 60, 10);
  late.kernel(80, 90, 10);
  late.kernel(152, 160, 5);  // after the step
  order_events(late.trace);
  const std::string text = gaps_text(late.trace, -1);
  EXPECT_THAT(text, HasSubstr("   Idle  After the first step's start  Step            Where"));
  EXPECT_THAT(text, ContainsRegex("20.000us +20.000us  ProfilerStep#1 "));
  EXPECT_THAT(text, ContainsRegex("60.000us +50.000us  ProfilerStep#1 ")) << "where it begins";
  EXPECT_THAT(gaps_json(late.trace, -1),
              HasSubstr(R"("idle_us":20.000,"at_us":20.000,"step":"ProfilerStep#1",)"));
  std::erase_if(late.trace.events, [](const Event& e) { return e.kind == EventKind::user_annotation; });
  EXPECT_THAT(gaps_text(late.trace, -1),
              AllOf(HasSubstr("After the first event  Step"), ContainsRegex("20.000us +60.000us  - ")));
  EXPECT_THAT(gaps_json(late.trace, -1), HasSubstr(R"("at_us":60.000,"step":null,)"));
}

TEST(Gaps, AreSummedUpByWhatTheHostDid) {
  Synthetic made;
  made.kernel(1, 5, 5);
  made.call("cudaMalloc", 11, 20);
  made.kernel(32, 35, 5);  // after 25 us
  made.call("cudaMalloc", 41, 5);
  made.kernel(47, 48, 2);   // after 8 us
  made.kernel(89, 90, 10);  // after 40 us of nothing
  order_events(made.trace);
  const GapSum sum = sum_gaps(made.trace);
  EXPECT_EQ(sum.gaps, 3);
  EXPECT_EQ(sum.idle_ns, 73'000);
  EXPECT_EQ(sum.window_ns, 95'000);
  ASSERT_EQ(sum.by_host.size(), 2u);
  EXPECT_EQ(sum.by_host[0].name, "") << "the step alone";
  EXPECT_EQ(sum.by_host[0].idle_ns, 40'000);
  EXPECT_EQ(sum.by_host[1].name, "cudaMalloc");
  EXPECT_EQ(sum.by_host[1].gaps, 2);
  EXPECT_EQ(sum.by_host[1].idle_ns, 33'000);
  EXPECT_THAT(gaps_text(made.trace, 1),
              AllOf(HasSubstr("\nTogether: 3 gaps, 73.000us idle, 76.8% of the time"),
                    ContainsRegex("nothing recorded +1 +40.000us +54.8%")));
  EXPECT_THAT(
      gaps_json(made.trace, 1),
      AllOf(HasSubstr("\"gap_count\":3,\n\"idle_us\":73.000,\n\"window_us\":95.000,\n\"idle_share\":0.7684"),
            HasSubstr(R"({"host":"cudaMalloc","gaps":2,"idle_us":33.000})")));
}

TEST(Gaps, WithoutADeviceTheWindowIsOfEachStep) {
  const Synthetic cpu = two_steps_of_cpu_kernels();
  EXPECT_EQ(sum_gaps(cpu.trace).window_ns, 40'000) << "from 10 to 45 and from 210 to 215";
}

TEST(Gaps, OfADamagedTraceMayHoldWhatWasLost) {
  Synthetic made;
  made.trace.source = "t.json";
  made.kernel(1, 5, 5);
  made.kernel(44, 50, 10);
  order_events(made.trace);
  EXPECT_THAT(gaps_text(made.trace, -1), StartsWith("t.json\n"));
  EXPECT_THAT(gaps_json(made.trace, -1), HasSubstr("\"damaged\":false"));
  made.trace.damaged = true;
  EXPECT_THAT(gaps_text(made.trace, -1),
              StartsWith("t.json: DAMAGED: a gap may hold kernels or copies that were lost\n"));
  EXPECT_THAT(gaps_json(made.trace, -1), HasSubstr("\"damaged\":true"));
}

TEST(Gaps, OfARealTraceNameTheKernelAndItsOp) {
  const std::string text = gaps_text(real("mlp_eager"), 1);
  EXPECT_THAT(text, HasSubstr("28.256us"));
  EXPECT_THAT(text, HasSubstr("GPU 0 stream 7  Memset (Device)  aten::mm"));
}

std::vector<Gap> gaps_found_in_seconds(const Trace& trace) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<Gap> gaps = find_gaps(trace, -1);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  return gaps;
}

// One range around everything must not make every gap a search through everything before it.
TEST(Gaps, OfALongTraceInsideOneRangeAreExplainedInSeconds) {
  constexpr int64_t kKernels = kSanitized ? 20'000 : 100'000;
  Synthetic made;
  made.trace.events[0].duration_ns = (10 * kKernels + 100) * 1000;
  for (int64_t i = 0; i < kKernels; ++i) {
    made.op(10 * i, 4);
    made.kernel(10 * i + 1, 10 * i + 2, 3);
  }
  order_events(made.trace);
  const std::vector<Gap> gaps = gaps_found_in_seconds(made.trace);
  ASSERT_EQ(gaps.size(), static_cast<size_t>(kKernels - 1));
  for (const Gap& gap : {gaps.front(), gaps.back()}) {
    EXPECT_EQ(made.trace.name(made.trace.events[gap.launched_by]), "aten::mm");
    EXPECT_EQ(made.trace.name(made.trace.events[gap.host]), "ProfilerStep#1");
  }
}

// As asynchronous ranges do; all of them lie around the last one.
TEST(Gaps, SlicesThatOverlapTheNextTakeNoQuadraticTime) {
  constexpr int kKernels = kSanitized ? 20'000 : 100'000;
  Synthetic made;
  made.trace.events.front().duration_ns = int64_t{20'000} * kKernels;
  for (int i = 0; i < kKernels; ++i) {
    made.op(20 * i, 20);
    made.trace.events.back().duration_ns += 1;
    made.kernel(20 * i + 1, 20 * i + 2, 3);
  }
  order_events(made.trace);
  const std::vector<Gap> gaps = gaps_found_in_seconds(made.trace);
  ASSERT_EQ(gaps.size(), static_cast<size_t>(kKernels - 1));
  EXPECT_EQ(made.trace.name(made.trace.events[gaps.back().host]), "aten::mm");
}

TEST(Gaps, ManyShortOpsAreWhatTheHostDidAndNotTheirStep) {
  Synthetic made;
  made.kernel(1, 2, 3);
  for (int i = 0; i < 6; ++i) made.op(10 + 14 * i, 10);
  made.kernel(97, 98, 1);
  order_events(made.trace);
  const Gap gap = find_gaps(made.trace, -1).at(0);
  EXPECT_EQ(made.trace.name(made.trace.events[gap.host]), "aten::mm");
  const GapSum sum = sum_gaps(made.trace);
  ASSERT_EQ(sum.by_host.size(), 1u);
  EXPECT_EQ(sum.by_host[0].name, "aten::mm");
}

}  // namespace
}  // namespace epilogue::trace
