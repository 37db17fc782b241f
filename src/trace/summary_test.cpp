#include "trace/summary.h"

#include <chrono>
#include <map>

#include <simdjson.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "real_traces.h"
#include "trace/gaps.h"
#include "trace/links.h"

namespace epilogue::trace {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

Event event(EventKind kind, StringId name, int64_t start_us, int64_t duration_us, uint32_t track = 0) {
  Event e;
  e.kind = kind;
  e.name = name;
  e.start_ns = start_us * 1000;
  e.duration_ns = duration_us * 1000;
  e.track = track;
  return e;
}

// One step of 100 us on thread 0; kernels are launched by calls of 1 us and run on track 1.
struct Synthetic {
  Trace trace;
  uint32_t correlation = 0;

  Synthetic() {
    trace.tracks = {{.process = 1, .thread = 1}, {.process = 0, .thread = 7, .device = true}};
    trace.events.push_back(event(EventKind::user_annotation, name("ProfilerStep#1"), 0, 100));
  }
  StringId name(std::string_view text) { return trace.strings.intern(text); }
  void op(int64_t start, int64_t duration) {
    trace.events.push_back(event(EventKind::cpu_op, name("aten::mm"), start, duration));
  }
  void call(std::string_view what, int64_t start, int64_t duration) {
    trace.events.push_back(event(EventKind::cuda_runtime, name(what), start, duration));
  }
  void kernel(int64_t launched, int64_t start, int64_t duration) {
    call("cudaLaunchKernel", launched, 1);
    trace.events.back().correlation = ++correlation;
    trace.events.push_back(event(EventKind::kernel, name("k"), start, duration, 1));
    trace.events.back().correlation = correlation;
  }
  Step step() {
    order_events(trace);
    return find_steps(trace, launching_calls(trace)).at(0);
  }
};

TEST(Summary, KernelsPerStepOfTheRealTraces) {
  const std::map<std::string, int64_t> expected{
      {"add_matmul", 2},  {"linear_eager", 1}, {"linear_compile", 1}, {"mlp_eager", 5},
      {"mlp_compile", 4}, {"mlp_liger", 4},    {"mlp_fp32_gelu", 5}};
  for (const auto& [name, kernels] : expected) {
    const Summary summary = summarise(real(name));
    ASSERT_EQ(summary.steps.size(), 3u) << name;
    for (const Step& step : summary.steps) EXPECT_EQ(step.kernels, kernels) << name << " " << step.name;
  }
}

TEST(Summary, AKernelAtSeveralNodesOfAGraphIsOneRow) {
  Synthetic graph;
  graph.trace.launches = {{.grid = {2, 1, 1}, .graph_node = 1, .graph = 3},
                          {.grid = {2, 1, 1}, .graph_node = 2, .graph = 3},
                          {.grid = {4, 1, 1}, .graph_node = 3, .graph = 3}};
  for (uint32_t node = 0; node < 3; ++node) {
    graph.kernel(10 * node, 10 * node, 5);
    graph.trace.events.back().detail = node;
  }
  const Summary summary = summarise(graph.trace);
  ASSERT_EQ(summary.kernels.size(), 2u);
  EXPECT_EQ(summary.kernels[0].calls, 2);
  EXPECT_EQ(summary.kernels[1].calls, 1);
}

TEST(Summary, ShowsWhatARealTraceHolds) {
  const Summary summary = summarise(real("mlp_fp32_gelu"));
  EXPECT_EQ(summary.kernels[0].calls, 3);
  EXPECT_EQ(summary.kernels[0].total_ns, 183712);
  EXPECT_EQ(summary.kernels[0].launch.grid, (std::array<int32_t, 3>{32, 2, 4}));
  ASSERT_EQ(summary.memory.size(), 1u);
  EXPECT_EQ(summary.memory[0].peak_reserved, 354418688);
  EXPECT_NEAR(summary.memory[0].unused_reserve(), 0.725, 0.001);
  EXPECT_EQ(summary.launch.launches, 15);
  EXPECT_EQ(summary.launch.median_latency_ns, 12151);
  ASSERT_EQ(summary.copies.size(), 1u);
  EXPECT_EQ(summary.copies[0].bytes, 1536);
}

TEST(Summary, MemoryWithoutTotalsIsSummedUp) {
  Trace trace;
  trace.memories = {{.bytes = -100}, {.bytes = 5000}, {.bytes = -5000}, {.bytes = 300}};
  const Summary summary = summarise(trace);
  ASSERT_EQ(summary.memory.size(), 1u);
  EXPECT_EQ(summary.memory[0].peak_allocated, 5000) << "the 100 bytes were freed before";
  trace.memories = {{.bytes = 200}, {.bytes = -300}};
  EXPECT_EQ(summarise(trace).memory[0].peak_allocated, 300) << "100 bytes were there before";
}

TEST(Summary, JsonHasTheKeysOfTheContract) {
  const std::string json = summary_json({summarise(real("mlp_eager"))});
  simdjson::dom::parser parser;
  const simdjson::dom::element root = parser.parse(json);
  const auto has = [](simdjson::dom::element object, std::initializer_list<const char*> keys) {
    for (const char* key : keys) EXPECT_EQ(object[key].error(), simdjson::SUCCESS) << key;
  };
  has(root, {"file", "steps", "ops", "kernels", "memory", "problems"});
  has(root["steps"].at(0), {"name", "wall_us", "device_busy_us", "device_idle_us", "kernels", "regime"});
  has(root["ops"].at(0), {"name", "shapes", "calls", "self_cpu_us", "cpu_total_us", "self_device_us",
                          "device_total_us", "flops", "bytes"});
  has(root["kernels"].at(0), {"name", "short", "calls", "total_us", "avg_us", "min_us", "max_us", "grid",
                              "block", "registers", "shared_bytes"});
  EXPECT_EQ(int64_t(root["steps"].at(0)["kernels"]), 5);
  const std::string two = summary_json({summarise(real("mlp_eager")), summarise(real("mlp_liger"))});
  EXPECT_EQ(parser.parse(two)["files"].get_array().size(), 2u);
}

TEST(Summary, TablesSayHowManyRowsTheyLeaveOut) {
  const Summary summary = summarise(real("mlp_eager"));
  ASSERT_EQ(summary.steps.size(), 3u);
  const std::string text = summary_text({summary}, {.rows = 2});
  EXPECT_THAT(text, HasSubstr("... and 1 more row (--rows)\n"));
  EXPECT_THAT(text, HasSubstr(fmt::format("... and {} more rows (--rows)\n", summary.ops.rows.size() - 2)));
  EXPECT_THAT(summary_text({summary}, {.rows = -1}), Not(HasSubstr(" more row")));
}

TEST(Summary, ATraceWithoutEventsSaysSo) {
  Trace empty;
  empty.source = "empty.json";
  EXPECT_EQ(summary_text({summarise(empty)}), "empty.json: the trace holds no events.\n");
}

TEST(Summary, OfOpsAloneNothingIsSaidOfADevice) {
  Synthetic ops;
  ops.op(10, 30);
  const std::string text = summary_text({summarise(ops.trace)});
  EXPECT_THAT(text, HasSubstr("Median of 1 step: wall 100.000us. The trace holds no kernels.\n"));
  EXPECT_THAT(text, Not(HasSubstr("Device idle")));
}

TEST(Summary, SeveralFilesStandSideBySide) {
  const std::string text = summary_text({summarise(real("mlp_eager")), summarise(real("mlp_compile"))});
  EXPECT_THAT(text, HasSubstr("mlp_eager.json.gz  mlp_compile.json.gz"));
  EXPECT_THAT(text, HasSubstr("kernels                            5                    4"));
}

TEST(Summary, SideBySideKernelsAreTimedPerStep) {
  const auto run = [](int64_t steps) {
    Synthetic made;
    made.trace.events.clear();
    for (int64_t s = 0; s < steps; ++s) {
      made.trace.events.push_back(
          event(EventKind::user_annotation, made.name("ProfilerStep#1"), 100 * s, 90));
      made.kernel(100 * s + 10, 100 * s + 20, 6);
    }
    made.kernel(100 * steps + 50, 100 * steps + 60, 30);  // after the last step
    order_events(made.trace);
    return summarise(made.trace);
  };
  EXPECT_THAT(summary_text({run(1), run(4)}),
              AllOf(HasSubstr("Kernels, time per step (mean)\n"), ContainsRegex("\nk +6.000us +6.000us\n")));
  const Summary steps = run(2);
  Summary none = run(2);
  none.steps.clear();
  EXPECT_THAT(summary_text({steps, none}),
              AllOf(HasSubstr("(mean; of the whole trace where it marks no steps)"),
                    ContainsRegex("\nk +6.000us +42.000us\n")));
}

TEST(Summary, KernelsOfOneShortNameStayApartSideBySide) {
  constexpr const char* kFirst = "nvjet_sm90_tst_192x128_64x5_1x2_h_bz_coopB_TNT";
  constexpr const char* kSecond = "nvjet_sm90_tst_192x128_64x5_2x1_v_bz_TNT";
  Synthetic both, one;
  both.kernel(10, 20, 6);
  both.trace.events.back().name = both.name(kFirst);
  both.kernel(30, 40, 8);
  both.trace.events.back().name = both.name(kSecond);
  one.kernel(10, 20, 6);
  one.trace.events.back().name = one.name(kFirst);
  for (Synthetic* made : {&both, &one}) order_events(made->trace);
  const Summary a = summarise(both.trace), b = summarise(one.trace);
  ASSERT_EQ(a.kernels[0].brief, a.kernels[1].brief);
  EXPECT_THAT(summary_text({a, b}), AllOf(ContainsRegex(std::string(kFirst) + " +6.000us +6.000us"),
                                          ContainsRegex(std::string(kSecond) + " +8.000us +-")));
}

TEST(Summary, LaunchLatencyIsShownWhereThereAreLaunches) {
  Synthetic cpu;
  cpu.trace.events.push_back(event(EventKind::cpu_kernel, cpu.name("k"), 10, 5));
  order_events(cpu.trace);
  const Summary on_cpu = summarise(cpu.trace), on_device = summarise(real("linear_eager"));
  EXPECT_THAT(summary_text({on_cpu, on_cpu}), Not(HasSubstr("launch latency")));
  EXPECT_THAT(summary_text({on_cpu, on_device}), ContainsRegex("launch latency +- +[0-9.]+us"));
}

TEST(Summary, KernelsShowWhatTheTraceTellsOfThem) {
  Synthetic mixed;
  mixed.kernel(30, 32, 10);
  mixed.trace.events.push_back(event(EventKind::cpu_kernel, mixed.name("worker"), 5, 20));
  mixed.trace.events.back().detail = 0;
  mixed.trace.events.push_back(event(EventKind::cpu_kernel, mixed.name("untold"), 5, 10));
  mixed.trace.work.push_back({.flops = 4'000'000, .bytes = 2048, .threads = 2});
  order_events(mixed.trace);
  const std::string text = summary_text({summarise(mixed.trace)});
  EXPECT_THAT(text, ContainsRegex("\nk .*10.000us +- +- +- +-\n"));
  EXPECT_THAT(text, ContainsRegex("Max  Threads  GFLOP +Bytes  GFLOP/s\n"));
  EXPECT_THAT(text, ContainsRegex("\nworker .*20.000us +2 +0.004 +2.00 KiB +200.0\n"));
  EXPECT_THAT(text, ContainsRegex("\nuntold .*10.000us +- +- +- +-\n"));
}

TEST(Summary, OneIsNotCountedInThePlural) {
  Synthetic one;
  const std::string text = summary_text({summarise(one.trace)});
  EXPECT_THAT(text, HasSubstr(": 1 event, 1 step\n"));
  EXPECT_THAT(text, HasSubstr("Median of 1 step: "));
}

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

TEST(Summary, ACpuKernelOfADeviceKernelsNameHasItsOwnRow) {
  Synthetic mixed;
  mixed.trace.events.push_back(event(EventKind::cpu_kernel, mixed.name("k"), 5, 20));
  mixed.kernel(30, 32, 10);
  order_events(mixed.trace);
  const std::vector<KernelStats> kernels = summarise(mixed.trace).kernels;
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_TRUE(kernels[0].cpu);
  EXPECT_FALSE(kernels[1].cpu);
  EXPECT_EQ(kernels[1].total_ns, 10000);
}

TEST(Summary, AKernelWithoutAnOpsIdIsItsCalls) {
  Synthetic unnamed;
  unnamed.op(10, 30);
  unnamed.trace.events.back().external_id = 5;
  unnamed.kernel(12, 20, 8);
  unnamed.trace.events[unnamed.trace.events.size() - 2].external_id = 5;
  order_events(unnamed.trace);
  for (const OpStats& row : summarise(unnamed.trace).ops.rows)
    EXPECT_EQ(row.self_device_us, row.name == "aten::mm" || row.name == "k" ? 8 : 0) << row.name;
}

// As aten::contiguous within itself: the table shows one op.
TEST(Summary, WorkOfAFoldedOpGoesToTheOneAroundIt) {
  Synthetic cpu;
  cpu.op(10, 30);
  cpu.op(11, 28);
  cpu.trace.events.push_back(event(EventKind::cpu_kernel, cpu.name("k"), 12, 20));
  cpu.trace.events.back().detail = 0;
  cpu.trace.work.push_back({.flops = 7, .bytes = 5, .threads = 1});
  order_events(cpu.trace);
  for (const OpStats& row : summarise(cpu.trace).ops.rows) {
    EXPECT_EQ(row.flops, row.name == "aten::mm" ? 7 : 0) << row.name;
    EXPECT_EQ(row.bytes, row.name == "aten::mm" ? 5 : 0) << row.name;
  }
}

TEST(Launches, LatencyAndQueueCountFromTheCall) {
  Synthetic synthetic;
  synthetic.kernel(0, 10, 5);
  synthetic.kernel(2, 15, 5);
  synthetic.kernel(4, 24, 5);
  order_events(synthetic.trace);
  const LaunchStats stats = summarise(synthetic.trace).launch;
  EXPECT_EQ(stats.median_latency_ns, 13000);
  EXPECT_EQ(stats.max_latency_ns, 20000);
  EXPECT_EQ(stats.max_queue, 2);
  EXPECT_DOUBLE_EQ(stats.mean_queue, 1.0);
}

TEST(Launches, AGraphIsOneLaunchThatItsFirstKernelStarts) {
  Synthetic graph;
  graph.kernel(0, 10, 5);
  for (int64_t node = 1; node < 4; ++node) {
    graph.trace.events.push_back(event(EventKind::kernel, graph.name("k"), 10 + 10 * node, 5, 1));
    graph.trace.events.back().correlation = graph.correlation;
  }
  graph.kernel(12, 60, 5);
  order_events(graph.trace);
  const LaunchStats stats = summarise(graph.trace).launch;
  EXPECT_EQ(stats.launches, 2);
  EXPECT_EQ(stats.median_latency_ns, 29000);
  EXPECT_EQ(stats.max_latency_ns, 48000);
  EXPECT_EQ(stats.max_queue, 0) << "the graph had started";
}

// As of several processes in one file, or of numbers that began again.
TEST(Launches, OfCallsOfOneCorrelationTheLatestBeforeTheKernelLaunchedIt) {
  Synthetic twice;
  twice.kernel(0, 10, 5);
  twice.correlation = 0;
  twice.kernel(40, 50, 5);
  order_events(twice.trace);
  const LaunchStats stats = summarise(twice.trace).launch;
  EXPECT_EQ(stats.launches, 2);
  EXPECT_EQ(stats.max_latency_ns, 10000);
}

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

TEST(Gaps, WithoutADeviceTheyLieBetweenKernelsOfOneStep) {
  Synthetic cpu;
  cpu.trace.events.push_back(event(EventKind::user_annotation, cpu.name("ProfilerStep#2"), 200, 100));
  for (const int64_t start : {10, 40, 210})
    cpu.trace.events.push_back(event(EventKind::cpu_kernel, cpu.name("k"), start, 5));
  order_events(cpu.trace);
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

TEST(Gaps, OfARealTraceNameTheKernelAndItsOp) {
  const std::string text = gaps_text(real("mlp_eager"), 1);
  EXPECT_THAT(text, HasSubstr("28.256us"));
  EXPECT_THAT(text, HasSubstr("GPU 0 stream 7  Memset (Device)  aten::mm"));
}

// One range around everything must not make every gap a search through everything before it.
TEST(Gaps, OfALongTraceInsideOneRangeAreExplainedInSeconds) {
  constexpr int64_t kKernels = 100'000;
  Synthetic made;
  made.trace.events[0].duration_ns = (10 * kKernels + 100) * 1000;
  for (int64_t i = 0; i < kKernels; ++i) {
    made.op(10 * i, 4);
    made.kernel(10 * i + 1, 10 * i + 2, 3);
  }
  order_events(made.trace);
  const auto start = std::chrono::steady_clock::now();
  const std::vector<Gap> gaps = find_gaps(made.trace, -1);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  ASSERT_EQ(gaps.size(), static_cast<size_t>(kKernels - 1));
  for (const Gap& gap : {gaps.front(), gaps.back()}) {
    EXPECT_EQ(made.trace.name(made.trace.events[gap.launched_by]), "aten::mm");
    EXPECT_EQ(made.trace.name(made.trace.events[gap.host]), "ProfilerStep#1");
  }
}

}  // namespace
}  // namespace epilogue::trace
