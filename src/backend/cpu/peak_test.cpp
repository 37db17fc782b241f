#include "backend/cpu/peak.h"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "backend/cpu/isa.h"
#include "base/threads.h"
#include "epilogue/error.h"

namespace epilogue::cpu {
namespace {

TEST(Isa, CapLowersWhatRuns) {
  const std::string best = isa_name();
  set_isa_cap("scalar");
  EXPECT_STREQ(isa_name(), "scalar");
  set_isa_cap("avx512");
  EXPECT_EQ(isa_name(), best);
  EXPECT_FALSE(uses_avx512_bf16());
  EXPECT_FALSE(uses_amx());
  set_isa_cap("avx512_bf16");
  EXPECT_EQ(uses_avx512_bf16(), has_avx512_bf16() && best == "avx512");
  EXPECT_FALSE(uses_amx());
  set_isa_cap("");
  EXPECT_EQ(isa_name(), best);
  EXPECT_THROW(set_isa_cap("sse9"), Error);
}

// Wide bounds: a processor of 2013 and one beyond any known; outside of them the loop was dropped or spilled.
TEST(Peak, CeilingsArePlausibleAndMeasuredOnce) {
  const double fma = peak_fma_gflops(), copy = copy_bandwidth_gbs();
  EXPECT_GT(fma, 0.1);
  EXPECT_LT(fma / thread_count(), 1000);
  EXPECT_GT(copy, 0.05);
  EXPECT_LT(copy / thread_count(), 500);
  // Half as many lanes. The two are measured one after the other: a neighbour may come between.
  EXPECT_LT(peak_gflops(DType::f64, 64), 0.8 * fma);
  EXPECT_GT(peak_gflops(DType::f64, 64), 0.05);
  // Two products a lane for one; 0 where there is no such instruction.
  EXPECT_EQ(peak_avx512_bf16_gflops() > 0, uses_avx512_bf16());
  EXPECT_LT(peak_avx512_bf16_gflops() / thread_count(), 2000);
  const double bf16 = uses_amx() ? peak_amx_bf16_gflops() : peak_avx512_bf16_gflops();
  EXPECT_EQ(peak_gflops(DType::bf16, 64), std::max(fma, bf16));
  EXPECT_EQ(peak_fma_gflops(), fma);
  EXPECT_EQ(copy_bandwidth_gbs(), copy);
}

}  // namespace
}  // namespace epilogue::cpu
