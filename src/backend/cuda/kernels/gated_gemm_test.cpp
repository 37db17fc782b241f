#include "backend/cuda/kernels/gated_gemm.h"

#include <random>
#include <set>
#include <string>

#include <gtest/gtest.h>

namespace epilogue::cuda {
namespace {

GatedGemmProblem problem(int64_t m, int64_t n, int64_t k, bool gated) {
  static const char memory[64] = {};
  const void* aligned = reinterpret_cast<const void*>((reinterpret_cast<uintptr_t>(memory) + 15) / 16 * 16);
  GatedGemmProblem p;
  p.m = m, p.n = n, p.k = k;
  p.x = p.gate = aligned, p.up = gated ? aligned : nullptr, p.out = const_cast<void*>(aligned);
  p.x_stride = p.gate_stride = p.up_stride = k, p.out_stride = n;
  return p;
}

std::string reason(const GatedGemmProblem& p) {
  const char* text = refuse_gated_gemm(p);
  return text == nullptr ? "" : text;
}

TEST(GatedGemm, RefusesWhatTheCopyEngineCannotLoad) {
  EXPECT_EQ(reason(problem(3, 24, 40, true)), "");
  EXPECT_NE(reason(problem(3, 24, 44, true)).find("K that is a multiple of 8"), std::string::npos);
  EXPECT_NE(reason(problem(3, 20, 40, false)).find("output width"), std::string::npos);
  EXPECT_NE(reason(problem(0, 24, 40, true)).find("empty"), std::string::npos);
  auto p = problem(3, 24, 40, true);
  p.x_stride = 44;
  EXPECT_NE(reason(p).find("multiples of 16 bytes"), std::string::npos);
  p = problem(3, 24, 40, true);
  p.up = static_cast<const char*>(p.up) + 8;
  EXPECT_NE(reason(p).find("multiples of 16 bytes"), std::string::npos);
  p = problem(3, 24, 40, true);
  p.dtype = DType::f32;
  EXPECT_NE(reason(p).find("bf16 and f16"), std::string::npos);
}

TEST(GatedGemm, ConfigurationsHaveNamesOfTheirOwn) {
  std::set<std::string> names;
  for (const GemmConfig& c : gated_gemm_configs()) EXPECT_TRUE(names.insert(name(c)).second) << name(c);
}

TEST(GatedGemm, BlocksShareColumnsEvenlyAndLeaveNone) {
  EXPECT_EQ(even_share(14336, 128, 132), 112);  // 128 blocks of 112 for 112 of 128
  EXPECT_EQ(even_share(14336, 64, 264), 56);
  EXPECT_EQ(even_share(14336, 32, 264), 32);  // two rounds by any share
  EXPECT_EQ(even_share(4096, 32, 132), 32);
  EXPECT_EQ(even_share(8, 128, 132), 8);
  EXPECT_EQ(even_share(1000, 64, 0), 64);
  for (int64_t n = 8; n < 30000; n += 8) {
    const int64_t share = even_share(n, 96, 132), blocks = (n + share - 1) / share;
    EXPECT_TRUE(share % 8 == 0 && share > 0 && share <= 96) << n;
    EXPECT_EQ((blocks + 131) / 132, ((n + 95) / 96 + 131) / 132) << n;  // no round more
  }
}

TEST(GatedGemmChoice, TakesTheProblemItIsChosenFor) {
  std::mt19937 random(7);
  for (int i = 0; i < 300; ++i) {
    const int64_t m = 1 + random() % (i % 2 == 0 ? 200 : 20000);
    const auto p = problem(m, 8 * (1 + random() % 4000), 8 * (1 + random() % 4000), i % 3 != 0);
    const GemmConfig chosen = choose_gated_gemm(p, 132);
    EXPECT_TRUE(takes(chosen, p) && may_be_best(chosen, p)) << p.m << " " << p.n << " " << p.k;
  }
}

TEST(GatedGemmChoice, LeavesSomethingToTimeAndNoTilesForFewTokens) {
  for (const int64_t m : {1, 2, 3, 8, 9, 16, 17, 33, 64, 65, 100, 129, 300, 1000, 20000})
    for (const int64_t n : {8, 768, 4096, 14336, 100000})
      for (const int64_t k : {8, 768, 4096, 14336})
        for (const int place : {0, 1, 2}) {
          GatedGemmProblem p = problem(m, n, k, place == 1);
          p.after_gated = place == 2;
          int count = 0;
          for (const GemmConfig& c : gated_gemm_configs()) {
            if (!takes(c, p) || !may_be_best(c, p)) continue;
            ++count;
            EXPECT_TRUE(m > 64 || (c.kernel != GemmKernel::tile && c.kernel != GemmKernel::swap)) << name(c);
          }
          EXPECT_GT(count, 0) << m << " " << n << " " << k;
        }
}

TEST(GatedGemmChoice, TakesAnMlpsTwoProductsByKernelsOfOneKind) {
  for (const int64_t m : {1, 2, 8, 16, 17, 64})
    for (const auto& [dim, hidden] : {std::pair{768, 3072}, {1024, 4096}, {2048, 5632}, {4096, 14336}}) {
      GatedGemmProblem down = problem(m, dim, hidden, false);
      down.after_gated = true;
      EXPECT_EQ(choose_gated_gemm(problem(m, hidden, dim, true), 132).kernel,
                choose_gated_gemm(down, 132).kernel)
          << m << " " << dim << " " << hidden;
    }
}

TEST(GatedGemmChoice, StreamsWeightsForFewTokensAndTilesForMany) {
  EXPECT_EQ(choose_gated_gemm(problem(1, 3072, 768, true), 132).kernel, GemmKernel::row_dot);
  EXPECT_EQ(choose_gated_gemm(problem(1, 14336, 4096, true), 132).columns, 256);
  GatedGemmProblem down = problem(1, 4096, 14336, false);
  EXPECT_EQ(choose_gated_gemm(down, 132).kernel, GemmKernel::row_mma);
  down.after_gated = true;
  EXPECT_EQ(choose_gated_gemm(down, 132).kernel, GemmKernel::skinny);
  EXPECT_EQ(choose_gated_gemm(problem(7, 5632, 2048, true), 132).columns, 256);
  EXPECT_EQ(choose_gated_gemm(problem(7, 1024, 4096, false), 132).kernel, GemmKernel::skinny);
  EXPECT_EQ(choose_gated_gemm(problem(64, 14336, 4096, true), 132).kernel, GemmKernel::skinny);
  const GemmConfig large = choose_gated_gemm(problem(8192, 14336, 4096, true), 132);
  EXPECT_EQ(large.kernel, GemmKernel::tile);
  EXPECT_TRUE(large.ping_pong);
}

TEST(GatedGemmChoice, TakesTokensByEightsBetweenStreamsAndTiles) {
  const GemmConfig pieces = choose_gated_gemm(problem(300, 14336, 4096, true), 132);
  EXPECT_EQ(pieces.kernel, GemmKernel::swap);
  EXPECT_EQ(pieces.rows, 152);
  EXPECT_TRUE(pieces.ping_pong);
  const GemmConfig six_pieces = choose_gated_gemm(problem(900, 14336, 4096, true), 132);
  EXPECT_EQ(six_pieces.kernel, GemmKernel::swap);
  EXPECT_TRUE(six_pieces.ping_pong);
  const GemmConfig one_piece = choose_gated_gemm(problem(150, 14336, 4096, true), 132);
  EXPECT_EQ(one_piece.kernel, GemmKernel::swap);
  EXPECT_FALSE(one_piece.ping_pong);
  EXPECT_EQ(choose_gated_gemm(problem(300, 5632, 2048, true), 132).rows, 104);  // one round of 132 tiles
  const GemmConfig three_rows = choose_gated_gemm(problem(370, 14336, 4096, true), 132);
  EXPECT_EQ(three_rows.kernel, GemmKernel::tile);
  EXPECT_EQ(three_rows.columns, 224);
}

TEST(GatedGemmChoice, SplitsKWhereOutputsAreFewAndOnlyIntoClustersThatFit) {
  EXPECT_EQ(choose_gated_gemm(problem(64, 14336, 4096, true), 132).split, 1);
  EXPECT_EQ(choose_gated_gemm(problem(64, 4096, 14336, false), 132).split, 2);
  EXPECT_EQ(choose_gated_gemm(problem(64, 1024, 4096, false), 132).split, 5);
  const GemmConfig pieces = choose_gated_gemm(problem(128, 1024, 2816, false), 132);
  EXPECT_EQ(pieces.rows, 64);
  EXPECT_EQ(pieces.split, 3);
}

}  // namespace
}  // namespace epilogue::cuda
