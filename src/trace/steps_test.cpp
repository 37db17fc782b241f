#include "trace/steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "real_traces.h"
#include "trace/summary.h"
#include "trace/synthetic_trace.h"

namespace epilogue::trace {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

TEST(Steps, BusyIsTheUnionOverStreamsOfWhatTheStepLaunched) {
  Synthetic synthetic;
  synthetic.kernel(10, 20, 10);
  synthetic.kernel(12, 25, 15);   // overlaps the first
  synthetic.kernel(90, 130, 5);   // runs after the step has ended
  synthetic.kernel(150, 160, 9);  // launched outside
  const Step step = synthetic.step();
  EXPECT_EQ(step.device_busy_ns, 25000);
  EXPECT_EQ(step.device_idle_ns, 80000) << "the third ran after the step";
  EXPECT_EQ(step.kernels, 3);
}

TEST(Steps, IdleIsWhatNothingFillsOfTheStepWhoeverLaunchedIt) {
  const auto idle_us = [](const std::string& name) {
    std::vector<double> us;
    for (const Step& step : summarise(real(name)).steps)
      us.push_back(static_cast<double>(step.device_idle_ns) / 1e3);
    return us;
  };
  EXPECT_THAT(idle_us("mlp_eager"), ElementsAre(202.527, 36.225, 8.418));
  Synthetic before;
  before.kernel(-50, -40, 50);  // of an earlier step, and runs into this one
  before.kernel(90, 95, 20);    // runs on after it
  EXPECT_EQ(before.step().device_idle_ns, 85000);
}

// Two devices that take turns: neither is busy for long, and together they would seem to be.
TEST(Steps, OfSeveralDevicesTheBusiestIsShown) {
  Synthetic turns;
  turns.trace.tracks.push_back({.process = 1, .thread = 7, .device = true});
  turns.trace.devices = {{.id = 0, .name = "NVIDIA H200"}, {.id = 1, .name = "NVIDIA H200"}};
  turns.op(0, 90);
  turns.kernel(1, 2, 45);
  turns.kernel(46, 50, 46);
  turns.trace.events.back().track = 2;
  const Step step = turns.step();
  EXPECT_EQ(step.device, 1);
  EXPECT_EQ(step.device_busy_ns, 46000);
  EXPECT_EQ(step.device_idle_ns, 54000);
  EXPECT_EQ(step.kernels, 2);
  EXPECT_EQ(step.regime, Regime::launch_bound);
  EXPECT_THAT(step.reason(), StartsWith("GPU 1 busy 46% of the step"));
  const Summary summary = summarise(turns.trace);
  EXPECT_THAT(summary_text({summary}), AllOf(HasSubstr("1 step, 2x NVIDIA H200\n"),
                                             HasSubstr("Of 2 devices the one that worked longest")));
  EXPECT_THAT(summary_json({summary}), HasSubstr("\"device\":1,\"devices\":2}"));
}

TEST(Steps, DeviceTimeAndIdleAreExplained) {
  EXPECT_THAT(summary_text({summarise(real("mlp_eager"))}),
              AllOf(HasSubstr("Wall  Device time  Device idle"), HasSubstr("also after the step's end"),
                    HasSubstr("Median of 3 steps: wall 191.094us, device time 233.117us")));
}

TEST(Steps, RegimeSaysWhatBoundTheStep) {
  Synthetic launches;
  launches.op(5, 80);
  launches.kernel(50, 55, 5);
  EXPECT_EQ(launches.step().regime, Regime::launch_bound);
  Synthetic device;
  device.kernel(1, 2, 95);
  EXPECT_EQ(device.step().regime, Regime::device_bound);
  Synthetic sync;
  sync.kernel(10, 20, 5);
  sync.call("cudaStreamSynchronize", 30, 40);
  EXPECT_EQ(sync.step().regime, Regime::waiting_on_sync);
  EXPECT_EQ(sync.step().sync_ns, 40000);
  Synthetic host;
  host.op(10, 20);
  host.kernel(12, 20, 5);
  EXPECT_EQ(host.step().regime, Regime::host_bound);
  Synthetic instant;
  instant.kernel(10, 20, 5);
  instant.trace.events[0].duration_ns = 0;
  EXPECT_EQ(instant.step().regime, Regime::host_bound) << "nothing was idle, and nothing busy";
}

// As in training: backward runs on autograd's thread.
TEST(Steps, WhatAnyHostThreadDoesIsTheHostsTime) {
  Synthetic training;
  training.trace.tracks.push_back({.process = 1, .thread = 2});
  training.op(0, 30);
  training.kernel(10, 15, 5);
  training.op(25, 60);
  training.trace.events.back().track = 2;
  training.kernel(50, 55, 5);
  const Step step = training.step();
  EXPECT_EQ(step.host_ops_ns, 85000);
  EXPECT_EQ(step.regime, Regime::launch_bound);
}

TEST(Steps, AThreadThatWaitsWhileAnotherWorksDoesNotHoldTheStepUp) {
  Synthetic two;
  two.trace.tracks.push_back({.process = 1, .thread = 2});
  two.op(0, 60);
  two.kernel(10, 15, 5);
  two.call("cudaEventSynchronize", 0, 70);
  two.trace.events.back().track = 2;
  EXPECT_EQ(two.step().sync_ns, 10000);
  EXPECT_EQ(two.step().host_ops_ns, 60000);
}

TEST(Steps, ACopyThatItsCallWaitsForIsAWait) {
  const auto copying = [](const char* call, const char* copy, int64_t returns) {
    Synthetic made;
    made.kernel(1, 2, 70);
    made.call(call, 5, returns - 5);
    made.trace.events.back().correlation = 9;
    made.trace.events.push_back(event(EventKind::gpu_memcpy, made.name(copy), 72, 2, 1));
    made.trace.events.back().correlation = 9;
    return made.step();
  };
  const Step blocked = copying("cudaMemcpy", "Memcpy DtoH (Device -> Pageable)", 80);
  EXPECT_EQ(blocked.sync_ns, 75000);
  EXPECT_EQ(blocked.regime, Regime::waiting_on_sync);
  EXPECT_EQ(copying("cudaMemcpyAsync", "Memcpy DtoH (Device -> Pageable)", 80).sync_ns, 75000);
  EXPECT_EQ(copying("cudaMemcpy", "Memcpy HtoD (Pageable -> Device)", 80).sync_ns, 75000);
  EXPECT_EQ(copying("cudaMemcpyAsync", "Memcpy DtoD (Device -> Device)", 80).sync_ns, 0);
  EXPECT_EQ(copying("cudaMemcpyAsync", "Memcpy DtoH (Device -> Pinned)", 20).sync_ns, 0)
      << "it returned before";
}

TEST(Steps, OfOverlappingStepsTheLastBegunHoldsTheMoment) {
  Synthetic nested;
  nested.trace.events.push_back(event(EventKind::user_annotation, nested.name("ProfilerStep#2"), 20, 10));
  for (const int64_t at : {5, 25, 50, 70}) nested.kernel(at, at + 2, 1);
  order_events(nested.trace);
  const std::vector<Step> steps = find_steps(nested.trace, launching_calls(nested.trace));
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].kernels, 3) << "also those after the inner one's end";
  EXPECT_EQ(steps[1].kernels, 1);
  StepSearch forward(steps), backward(steps);
  std::vector<uint32_t> there, back;
  for (const int64_t us : {5, 25, 50, 150}) there.push_back(forward.at(us * 1000));
  for (const int64_t us : {150, 50, 25, 5}) back.insert(back.begin(), backward.at(us * 1000));
  EXPECT_THAT(there, ElementsAre(0u, 1u, 0u, kNoEvent));
  EXPECT_EQ(there, back) << "whatever was asked before";
  count_broken_links(nested.trace);
  ASSERT_EQ(nested.trace.problems.size(), 1u);
  EXPECT_THAT(nested.trace.problems[0].what, StartsWith("steps that overlap"));
}

// As in a step of a compiled MLP: what it launched takes nine tenths of its time, and runs after it.
TEST(Steps, ADeviceThatIdledDidNotBindTheStep) {
  Synthetic late;
  late.op(0, 85);
  late.kernel(60, 70, 89);
  EXPECT_EQ(late.step().device_busy_ns, 89000);
  EXPECT_EQ(late.step().regime, Regime::launch_bound);
  for (const Step& step : summarise(real("mlp_compile")).steps)
    EXPECT_EQ(step.regime, Regime::launch_bound) << step.name << ": " << step.reason();
}

TEST(Steps, ADevicePausesWhileTheHostWaitsForItLonger) {
  Synthetic waited;
  waited.op(0, 80);
  waited.kernel(5, 10, 90);
  EXPECT_EQ(waited.step().regime, Regime::launch_bound) << "a tenth idle, and nobody waited for it";
  waited.call("cudaDeviceSynchronize", 85, 15);
  EXPECT_EQ(waited.step().regime, Regime::device_bound);
  Synthetic behind;
  behind.op(0, 80);
  behind.kernel(5, 10, 110);  // the host goes on and will have to wait
  EXPECT_EQ(behind.step().regime, Regime::device_bound);
}

TEST(Steps, TheRegimeOfATraceIsThatOfMostOfItsSteps) {
  const auto steps = [](std::initializer_list<Regime> regimes) {
    std::vector<Step> made;
    for (const Regime regime : regimes) made.emplace_back().regime = regime;
    return made;
  };
  using enum Regime;
  EXPECT_EQ(regime_of(steps({device_bound, device_bound, launch_bound})), device_bound);
  EXPECT_EQ(regime_of(steps({device_bound, launch_bound})), launch_bound) << "the latest of equally many";
  EXPECT_THAT(summary_json({summarise(real("mlp_eager"))}), HasSubstr("\n\"regime\":\"launch-bound\""));
}

TEST(Steps, WorkThatCannotBeTiedToALaunchMakesAStepIncomplete) {
  Synthetic untied;
  untied.trace.events.push_back(event(EventKind::kernel, untied.name("k"), 20, 10, 1));
  EXPECT_EQ(untied.step().regime, Regime::incomplete);
}

TEST(Steps, OfADamagedTraceAreIncomplete) {
  Synthetic made;
  made.op(5, 90);
  made.kernel(10, 20, 10);
  EXPECT_EQ(made.step().regime, Regime::launch_bound);
  made.trace.damaged = true;
  EXPECT_EQ(made.step().regime, Regime::incomplete);
  EXPECT_EQ(
      made.step().reason(),
      "the trace is damaged, events may be missing; of those left: device busy 10% of the step, host 90% in "
      "ops and launches, 0% waiting");
  Synthetic cpu;
  cpu.trace.events.push_back(event(EventKind::cpu_kernel, cpu.name("k"), 12, 20));
  cpu.trace.damaged = true;
  EXPECT_EQ(cpu.step().regime, Regime::incomplete);
  EXPECT_THAT(cpu.step().reason(), HasSubstr("of those left: kernels busy 20% of the step"));
}

TEST(Steps, AGraphIsALaunchOfSeveralKernelsUnlessTheyAreMissing) {
  Synthetic graph;
  graph.kernel(10, 20, 10);
  graph.trace.launches.push_back({.graph = 3});
  graph.trace.events.back().detail = 0;
  graph.trace.events.push_back(graph.trace.events.back());
  EXPECT_NE(graph.step().regime, Regime::incomplete);
  EXPECT_EQ(graph.step().kernels, 2);
  graph.call("cudaGraphLaunch", 40, 5);  // replayed, and nothing of it was recorded
  EXPECT_EQ(graph.step().regime, Regime::incomplete);
  EXPECT_THAT(graph.step().reason(), HasSubstr("is missing"));
}

TEST(Steps, WithoutADeviceCpuKernelsAreCounted) {
  Synthetic cpu;
  cpu.op(10, 30);
  cpu.trace.events.push_back(event(EventKind::cpu_kernel, cpu.name("k"), 12, 20));
  cpu.trace.events.push_back(event(EventKind::cpu_kernel, cpu.name("k"), 50, 5));
  EXPECT_EQ(cpu.step().regime, Regime::cpu);
  EXPECT_EQ(cpu.step().kernels, 2);
  EXPECT_EQ(cpu.step().device_busy_ns, 25000);
}

TEST(Steps, WithADeviceCpuKernelsDoNotCount) {
  Synthetic mixed;
  mixed.trace.events.push_back(event(EventKind::cpu_kernel, mixed.name("k"), 5, 20));
  mixed.kernel(30, 32, 10);
  EXPECT_EQ(mixed.step().kernels, 1);
  EXPECT_EQ(mixed.step().device_busy_ns, 10000);
}

}  // namespace
}  // namespace epilogue::trace
