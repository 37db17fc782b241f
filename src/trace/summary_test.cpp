#include "trace/summary.h"

#include <map>

#include <simdjson.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "real_traces.h"
#include "trace/synthetic_trace.h"

namespace epilogue::trace {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

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
  EXPECT_EQ(int64_t(root["events"]), 140);
  EXPECT_EQ(std::string_view(root["devices"].at(0)), "NVIDIA H200");
  EXPECT_FALSE(bool(root["damaged"]));
  EXPECT_DOUBLE_EQ(double(root["median_step"]["device_busy_us"]), 233.117);
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
  ops.trace.damaged = true;
  EXPECT_THAT(summary_text({summarise(ops.trace)}),
              HasSubstr("What is left of the trace holds no kernels.\n"));
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

}  // namespace
}  // namespace epilogue::trace
