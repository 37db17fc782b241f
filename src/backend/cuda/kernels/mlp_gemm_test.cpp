#include "backend/cuda/kernels/mlp_gemm.h"

#include <set>

#include <gtest/gtest.h>

namespace epilogue::cuda {
namespace {

alignas(16) uint16_t memory[64];

MlpGemmProblem problem(int64_t m, int64_t dim, int64_t hidden) {
  MlpGemmProblem p;
  p.gated = {.dtype = DType::bf16, .act = Act::silu, .m = m, .n = hidden, .k = dim};
  p.gated.x = p.gated.gate = p.gated.up = p.down = memory;
  p.gated.out = p.out = memory;
  p.gated.x_stride = p.gated.gate_stride = p.gated.up_stride = dim;
  p.gated.out_stride = p.down_stride = hidden;
  p.dim = p.out_stride = dim;
  return p;
}

TEST(MlpGemm, RefusesWhatEitherProductCannotLoad) {
  EXPECT_EQ(refuse_mlp_gemm(problem(1024, 1024, 4096)), nullptr);
  EXPECT_NE(refuse_mlp_gemm(problem(1024, 1024, 4100)), nullptr);  // down's K is no multiple of 8
  auto p = problem(1024, 1024, 4096);
  p.dim = 1020;
  EXPECT_NE(refuse_mlp_gemm(p), nullptr);
  p = problem(1024, 1024, 4096);
  p.down = reinterpret_cast<const uint8_t*>(memory) + 2;
  EXPECT_NE(refuse_mlp_gemm(p), nullptr);
  p = problem(1024, 1024, 4096);
  p.gated.up = nullptr;
  EXPECT_NE(refuse_mlp_gemm(p), nullptr);
}

TEST(MlpGemm, PartsCoverKAndTheLastIsTheLongest) {
  for (const int width : {128, 192})
    for (int parts = 1; parts <= 5; ++parts)
      for (int k_steps = parts; k_steps < 300; ++k_steps) {
        const int each = steps_of_part(k_steps, parts, width), last = k_steps - (parts - 1) * each;
        EXPECT_GE(each, 1) << k_steps << " in " << parts;
        EXPECT_GE(last, each) << k_steps << " in " << parts;
      }
  EXPECT_EQ(steps_of_part(64, 2, 128), 28);
}

TEST(MlpGemm, NeedsRoomForTheSumsOfAllPartsButTheLast) {
  const auto p = problem(1000, 1024, 4096);  // 8 rows of tiles, 8 columns of down's
  MlpGemmConfig config{.id = 0, .rows = 128, .columns = 128, .parts = 1};
  EXPECT_EQ(room_of(p, config).sum_bytes, 0u);
  EXPECT_EQ(room_of(p, config).counter_bytes, 4u * (1 + 8 * kMlpChunks + 64));
  config.parts = 3;
  EXPECT_EQ(room_of(p, config).sum_bytes, 64u * 2 * 128 * 128 * 4);
}

TEST(MlpGemm, ConfigurationsHaveNamesOfTheirOwn) {
  std::set<std::string> names;
  for (const MlpGemmConfig& c : mlp_gemm_configs()) EXPECT_TRUE(names.insert(name(c)).second) << name(c);
}

}  // namespace
}  // namespace epilogue::cuda
