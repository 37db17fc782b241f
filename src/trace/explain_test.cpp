#include "trace/explain.h"

#include <algorithm>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test_data.h"

namespace epilogue::trace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string path(const char* name) { return test_data(std::string("traces/") + name + ".json.gz"); }

TEST(ExplainTrace, NoKernelOfTheSevenTracesIsUnknown) {
  int traces = 0;
  for (const auto& file : std::filesystem::directory_iterator(test_data("traces"))) {
    if (file.path().extension() != ".gz") continue;
    ++traces;
    const TraceExplanation all = explain_trace(read_trace(file.path().string()));
    EXPECT_FALSE(all.kernels.empty()) << file.path();
    for (const KernelUse& use : all.kernels) {
      EXPECT_TRUE(use.kernel.known()) << file.path() << ": " << use.kernel.name;
      EXPECT_EQ(use.calls % 3, 0) << use.kernel.name;  // three active steps
    }
  }
  EXPECT_EQ(traces, 7);
}

TEST(ExplainTrace, UpAndDownProjectionDifferByTheirWaves) {
  const TraceExplanation all = explain_trace(read_trace(path("mlp_eager")));
  ASSERT_EQ(all.comparisons.size(), 1u);
  const KernelComparison& mm = all.comparisons[0];
  EXPECT_EQ(mm.op, "aten::mm");
  EXPECT_EQ(all.kernels[mm.a].kernel.name, "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT");
  EXPECT_EQ(all.kernels[mm.b].kernel.name, "nvjet_sm90_tst_192x128_64x5_1x2_h_bz_coopB_TNT");
  std::vector<std::string> fields;
  for (const NameDifference& d : mm.differences) fields.push_back(d.field);
  EXPECT_THAT(fields, ElementsAre("tile", "waves", "stages"));
  EXPECT_THAT(mm.differences[1].b,
              HasSubstr("8192x768x3072: 192x128 makes 256 tiles, 1.94 waves over 132 SMs"));
}

TEST(ExplainTrace, LinearWithBiasHasOneGemmAndNothingToCompare) {
  const TraceExplanation all = explain_trace(read_trace(path("linear_eager")));
  ASSERT_EQ(all.kernels.size(), 1u);
  EXPECT_EQ(all.kernels[0].calls, 3);
  EXPECT_THAT(all.kernels[0].ops, ElementsAre("aten::addmm"));
  EXPECT_EQ(all.kernels[0].call.n, 64);
  EXPECT_TRUE(all.comparisons.empty());
}

TEST(ExplainTrace, EmptyTraceHasNothingToExplain) { EXPECT_TRUE(explain_trace(Trace{}).kernels.empty()); }

}  // namespace
}  // namespace epilogue::trace
