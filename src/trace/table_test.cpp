// PyTorch's own tables for seven real traces: tests/data/traces.
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "base/format.h"
#include "epilogue/profiler.h"
#include "test_data.h"
#include "trace/op_table.h"

namespace epilogue::trace {
namespace {

std::string trace_data(const std::string& name) { return test_data("traces/" + name); }

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

class RealTrace : public testing::TestWithParam<const char*> {};

TEST_P(RealTrace, TableIsPyTorchsToTheLetter) {
  const Trace trace = read_trace(trace_data(std::string(GetParam()) + ".json.gz"));
  EXPECT_EQ(key_averages(trace).table({.sort_by = "cuda_time_total", .rows = 40}),
            text_of(trace_data(std::string(GetParam()) + ".table.txt")));
  EXPECT_TRUE(trace.problems.empty());
}

TEST_P(RealTrace, WrittenAndReadAgainGivesTheSameEventsAndTable) {
  const Trace trace = read_trace(trace_data(std::string(GetParam()) + ".json.gz"));
  for (const char* suffix : {".json", ".json.gz"}) {
    const std::string copy = testing::TempDir() + "round_trip_" + GetParam() + suffix;
    write_trace(trace, copy);
    const Trace again = read_trace(copy);
    EXPECT_TRUE(again.problems.empty());
    EXPECT_EQ(again.base_ns, trace.base_ns);
    ASSERT_EQ(again.events.size(), trace.events.size());
    for (size_t i = 0; i < trace.events.size(); ++i) {
      const Event &a = trace.events[i], &b = again.events[i];
      ASSERT_EQ(again.name(b), trace.name(a));
      ASSERT_EQ(std::tie(b.start_ns, b.duration_ns, b.kind, b.external_id, b.correlation),
                std::tie(a.start_ns, a.duration_ns, a.kind, a.external_id, a.correlation));
      ASSERT_EQ(again.tracks[b.track].thread, trace.tracks[a.track].thread);
      ASSERT_EQ(again.strings[again.tracks[b.track].name], trace.strings[trace.tracks[a.track].name]);
      if (a.kind == EventKind::kernel) {
        ASSERT_EQ(again.launches[b.detail], trace.launches[a.detail]);
      }
      if (a.kind == EventKind::cpu_op && a.detail != kNoDetail) {
        ASSERT_EQ(again.strings[again.op_inputs[b.detail].dims],
                  trace.strings[trace.op_inputs[a.detail].dims]);
      }
    }
    EXPECT_EQ(again.devices.size(), trace.devices.size());
    EXPECT_EQ(again.devices[0].shared_per_multiprocessor, 233472);
    EXPECT_EQ(key_averages(again, {.group_by_shape = true}).table(),
              key_averages(trace, {.group_by_shape = true}).table());
  }
}

INSTANTIATE_TEST_SUITE_P(Traces, RealTrace,
                         testing::Values("add_matmul", "linear_compile", "linear_eager", "mlp_compile",
                                         "mlp_eager", "mlp_fp32_gelu", "mlp_liger"),
                         [](const auto& test) { return std::string(test.param); });

KeyAverages two_ops() {
  KeyAverages averages;
  averages.rows.push_back({.name = "ep::mm",
                           .shapes = "[[64, 768], [768, 3072]]",
                           .calls = 2,
                           .self_cpu_us = 300,
                           .cpu_total_us = 300,
                           .flops = 603979776});
  averages.rows.push_back({.name = "ep::gelu", .shapes = "[[64, 3072]]", .calls = 1, .self_cpu_us = 100});
  averages.has_shapes = averages.has_flops = true;
  averages.dropped = 7;
  return averages;
}

TEST(Table, ShowsShapesFlopsShareOfPeakAndWhatWasDropped) {
  const std::string table = two_ops().table({.sort_by = "count", .peak_gflops = 4000});
  EXPECT_NE(
      table.find("  # of Calls                  Input Shapes  Total MFLOPs       GFLOP/s     % of peak  \n"),
      std::string::npos);
  EXPECT_NE(table.find("[[64, 768], [768, 3072]]       603.980        2013.3        50.33%  \n"),
            std::string::npos);
  EXPECT_NE(table.find("[[64, 3072]]            --            --            --  \n"), std::string::npos);
  EXPECT_NE(table.find("Dropped events: 7"), std::string::npos);
  EXPECT_EQ(table.find("CUDA"), std::string::npos);
}

TEST(Table, ADamagedTraceOfADeviceGivesNoRates) {
  Trace trace = read_trace(trace_data("mlp_eager.json.gz"));
  EXPECT_TRUE(key_averages(trace, {.with_flops = true}).has_flops);
  trace.damaged = true;
  EXPECT_FALSE(key_averages(trace, {.with_flops = true}).has_flops);
}

TEST(Table, FlopsBeyondAnyNumberAreNotCounted) {
  EXPECT_EQ(op_flops("aten::mm", "[[2, 3], [3, 4]]"), 48);
  EXPECT_EQ(op_flops("aten::mm", "[[4294967296, 4294967296], [4294967296, 2]]"), 0);
}

TEST(Table, AnUnknownSortKeyNamesTheKnownOnes) {
  try {
    (void)two_ops().table({.sort_by = "speed"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("'speed' is not known, expected one of: self_cpu_time_total"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace epilogue::trace
