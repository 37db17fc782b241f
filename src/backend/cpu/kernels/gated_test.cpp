// The gated MLP in one CPU kernel: against float64, and what is promised of its bits and its memory.
#include "backend/cpu/kernels/gated.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/cpu/isa.h"
#include "backend/cpu/kernels/panel_layer.h"
#include "backend/cpu/kernels/tile_product.h"
#include "base/threads.h"
#include "epilogue/memory.h"
#include "epilogue/nn.h"
#include "sanitized.h"
#include "traced.h"

namespace epilogue {
namespace {

using testing::ElementsAre;
using testing::StartsWith;

constexpr Act kActs[] = {Act::none, Act::relu, Act::silu, Act::gelu_tanh, Act::gelu};

Tensor scaled(const Dims& sizes, uint64_t seed, DType dtype) {
  const double scale = 1 / std::sqrt(static_cast<double>(sizes[sizes.size() - 1]));
  return mul(randn(sizes, seed), full({1}, scale)).to(dtype).set_parameter();
}

GatedWeights make_weights(int64_t k, int64_t hidden, int64_t n, bool bias, DType dtype) {
  GatedWeights weights{scaled({hidden, k}, 1, dtype),
                       scaled({hidden, k}, 2, dtype),
                       scaled({n, hidden}, 3, dtype),
                       {},
                       {},
                       {}};
  if (!bias) return weights;
  weights.gate_bias = randn({hidden}, 4, {dtype});
  weights.up_bias = randn({hidden}, 5, {dtype});
  weights.down_bias = randn({n}, 6, {dtype});
  return weights;
}

// On one thread: its products are small, and a busy machine makes every fork wait.
Tensor in_f64(const Tensor& x, const GatedWeights& w, Act act, bool down) {
  const int threads = thread_count();
  set_thread_count(1);
  const auto wide = [](const Tensor& t) { return t.defined() ? t.to(DType::f64) : t; };
  const Tensor gate = linear(wide(x), wide(w.gate), wide(w.gate_bias));
  const Tensor hidden = mul(activation(gate, act), linear(wide(x), wide(w.up), wide(w.up_bias)));
  const Tensor result = down ? linear(hidden, wide(w.down), wide(w.down_bias)) : hidden;
  set_thread_count(threads);
  return result;
}

// Relative to the largest element: one rounding of the result and the sums' own in f32; where the parts run
// in the kernel's place, their results are rounded too.
void expect_close(const Tensor& found, const Tensor& expected, const std::string& what) {
  ASSERT_EQ(found.sizes(), expected.sizes()) << what;
  const Tensor a = found.to(DType::f64).contiguous(), b = expected.contiguous();
  double worst = 0, largest = 1e-3;
  for (int64_t i = 0; i < a.numel(); ++i) {
    worst = std::max(worst, std::abs(a.data<double>()[i] - b.data<double>()[i]));
    largest = std::max(largest, std::abs(b.data<double>()[i]));
  }
  const double store = found.dtype() == DType::bf16 ? 0x1p-8 : found.dtype() == DType::f16 ? 0x1p-11 : 0;
  const bool rounds_hidden = cpu::panel_form(found.dtype(), 1) == cpu::PanelForm::tiles;
  const int roundings = cpu::refuse_panels(found.dtype()) ? 4 : rounds_hidden ? 2 : 1;
  EXPECT_LE(worst, (roundings * store + 4e-6) * largest) << what;
}

// By tiles, also where the processor has none: slow under sanitizers, where problems are smaller.
struct WithEmulatedTiles {
  explicit WithEmulatedTiles(cpu::TileUnit unit = cpu::TileUnit::amx) { cpu::emulate_tiles(unit); }
  ~WithEmulatedTiles() { cpu::emulate_tiles(cpu::TileUnit::none); }
};
// By the processor's own where it has them, for what does not depend on it.
struct WithTiles {
  WithTiles() { cpu::emulate_tiles(cpu::uses_amx() ? cpu::TileUnit::none : cpu::TileUnit::amx); }
  ~WithTiles() { cpu::emulate_tiles(cpu::TileUnit::none); }
};

// x in one of the layouts a caller may have it in.
Tensor make_x(int64_t m, int64_t k, int layout, DType dtype) {
  switch (layout) {
    case 0:
      return randn({m, k}, 7, {dtype});
    case 1:
      return randn({m + 3, k + 5}, 7, {dtype}).slice(0, 2, m + 2).slice(1, 1, k + 1);
    case 2:
      return randn({k, m}, 7, {dtype}).t();
    case 3:
      return randn({m, 2 * k}, 7, {dtype}).slice(1, 0, 2 * k, 2);
    default:
      return randn({2, m + 1, k}, 7, {dtype}).slice(1, 1, m + 1);  // 2m rows, not evenly apart
  }
}

// So many random problems, of each dtype as often as it is in the list.
void check_random_problems(int count, const std::vector<DType>& dtypes) {
  std::mt19937 random(1);
  const auto up_to = [&random](int64_t most) {
    return 1 + static_cast<int64_t>(random() % static_cast<uint32_t>(most));
  };
  for (int i = 0; i < count; ++i) {
    const int64_t m = i % 10 == 0 ? up_to(3000) : i % 3 == 0 ? up_to(300) : up_to(40);
    const int64_t most = m > 300 ? 40 : m > 40 ? 110 : 330;
    const int64_t k = i % 20 == 1 ? 1024 + up_to(300) : up_to(most),
                  hidden = i % 20 == 2 ? 768 + up_to(300) : up_to(most);
    const int64_t n = up_to(most);
    const Act act = kActs[random() % 5];
    const bool bias = random() % 2, down = random() % 4 != 0;
    const DType dtype = dtypes[random() % dtypes.size()];
    const int layout = static_cast<int>(random() % 5);
    const GatedWeights weights = make_weights(k, hidden, n, bias, dtype);
    const Tensor x = make_x(m, k, layout, dtype);
    const std::string what = "problem " + std::to_string(i) + ": " + dtype_name(dtype) + " x " +
                             x.sizes().to_string() + " layout " + std::to_string(layout) + " hidden " +
                             std::to_string(hidden) + " n " + std::to_string(n) + " " + act_name(act) +
                             (bias ? " bias" : "") + (down ? "" : " without down");
    expect_close(down ? gated_mlp(x, weights, act) : gated_linear(x, weights, act),
                 in_f64(x, weights, act, down), what);
    if (testing::Test::HasFailure()) return;
  }
}

using RowSpans = std::vector<std::pair<int64_t, int64_t>>;

void check_bits(DType dtype, int64_t hidden,
                const RowSpans& spans = {{0, 331}, {0, 1}, {17, 33}, {100, 300}}) {
  const int before = thread_count();
  const GatedWeights weights = make_weights(130, hidden, 90, true, dtype);
  const Tensor x = randn({331, 130}, 7, {dtype});
  set_thread_count(1);
  const Tensor one = gated_mlp(x, weights, Act::gelu_tanh);
  for (const int threads : {1, 2, 3, 8}) {
    set_thread_count(threads);
    for (const auto& [first, last] : spans) {
      const Tensor part = gated_mlp(x.slice(0, first, last), weights, Act::gelu_tanh);
      const Tensor expected = one.slice(0, first, last);
      EXPECT_EQ(std::memcmp(part.data(), expected.data(), part.nbytes()), 0)
          << dtype_name(dtype) << " " << threads << " threads, rows " << first << " to " << last;
    }
  }
  set_thread_count(before);
}

TEST(GatedPanels, RandomProblemsMatchFloat64) {
  check_random_problems(kSanitized ? 20 : 300, {DType::f32, DType::f32, DType::bf16, DType::f16, DType::f64});
}

// On few threads, where vectors compute beside the tiles, and on more.
void check_random_problems_by_tiles(int count, DType dtype, cpu::TileUnit unit = cpu::TileUnit::amx) {
  const WithEmulatedTiles tiles(unit);
  const int before = thread_count();
  for (const int threads : {2, 8}) {
    set_thread_count(threads);
    check_random_problems(count, {dtype});
  }
  set_thread_count(before);
}

TEST(GatedTiles, RandomProblemsMatchFloat64) {
  check_random_problems_by_tiles(kSanitized ? 6 : 60, DType::bf16);
}

TEST(GatedTiles, RandomProblemsMatchFloat64ByVectors) {
  check_random_problems_by_tiles(kSanitized ? 6 : 60, DType::bf16, cpu::TileUnit::vectors);
}

TEST(GatedParts, RandomProblemsMatchFloat64) {
  check_random_problems_by_tiles(kSanitized ? 6 : 40, DType::f32);
}

TEST(GatedTiles, ARowsBitsDependNeitherOnThreadsNorOnTheOtherRows) {
  for (const cpu::TileUnit unit : {cpu::TileUnit::amx, cpu::TileUnit::vectors}) {
    const WithEmulatedTiles tiles(unit);
    check_bits(DType::bf16, kSanitized ? 100 : 1100);  // more than a slice
  }
}

// Fewer rows than 64 go by vectors.
TEST(GatedParts, ARowsBitsDependNeitherOnThreadsNorOnTheOtherRows) {
  const WithEmulatedTiles tiles;
  check_bits(DType::f32, kSanitized ? 60 : 600, {{0, 331}, {17, 81}, {100, 300}});  // more than a slice
}

// By vectors, as the processor itself would treat them.
void expect_as_by_vectors(const Tensor& x, const GatedWeights& weights) {
  const Tensor found = gated_mlp(x, weights, Act::silu);
  cpu::emulate_tiles(cpu::TileUnit::none);
  cpu::set_isa_cap("avx512");
  const Tensor expected = gated_mlp(x, weights, Act::silu);
  cpu::set_isa_cap("");
  cpu::emulate_tiles(cpu::TileUnit::amx);
  EXPECT_EQ(std::memcmp(found.data(), expected.data(), found.nbytes()), 0);
}
bool goes_by_parts(const Tensor& x, const GatedWeights& weights) {
  return kernels_of([&] { gated_mlp(x, weights, Act::silu); }).front().ends_with("_amx_f32_bf16x3");
}

TEST(GatedParts, NumbersThatAreNotFiniteStayWhatTheyAre) {
  const WithEmulatedTiles tiles;
  const float infinity = std::numeric_limits<float>::infinity();
  GatedWeights weights = make_weights(40, 70, 33, false, DType::f32);
  EXPECT_TRUE(goes_by_parts(randn({70, 40}, 7), weights));
  for (const float odd : {infinity, -infinity, std::nanf("")}) {
    Tensor x = randn({70, 40}, 7);
    x.mutable_data<float>()[45 * 40 + 3] = odd;
    EXPECT_FALSE(goes_by_parts(x, weights));
    expect_as_by_vectors(x, weights);
  }
  expect_as_by_vectors(mul(randn({70, 40}, 7), full({1}, 1e30)), weights);  // hidden becomes infinite
  weights.up.mutable_data<float>()[41] = infinity;
  expect_as_by_vectors(randn({70, 40}, 7), weights);
}

TEST(GatedPanels, EveryInstructionSetMatchesFloat64) {
  for (const char* isa : {"scalar", "avx2", "avx512", "avx512_bf16", "amx"}) {
    cpu::set_isa_cap(isa);
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
      for (const int64_t m : {1, 5, 70}) {
        const GatedWeights weights = make_weights(70, 101, 50, true, dtype);
        const Tensor x = randn({m, 70}, 7, {dtype});
        expect_close(gated_mlp(x, weights, Act::gelu), in_f64(x, weights, Act::gelu, true),
                     std::string(isa) + " " + dtype_name(dtype) + " " + std::to_string(m));
      }
  }
  cpu::set_isa_cap("");
}

TEST(GatedPanels, ARowsBitsDependNeitherOnThreadsNorOnTheOtherRows) {
  check_bits(DType::bf16, 1000);
  cpu::set_isa_cap("avx512");  // by AMX f32 has others from 64 rows on
  check_bits(DType::f32, 1000);
  cpu::set_isa_cap("");
}

void check_memory(DType dtype, int64_t rows = 4096, int64_t dim = 16, int64_t hidden = 4096,
                  const std::string& arithmetic = "") {
  const int threads = thread_count();
  set_thread_count(2);  // more would be allowed more than hidden takes: 32 MB in f16
  nn::GatedMlp mlp(dim, hidden, {.mode = nn::Mode::fused, .tensor = {dtype}});
  const Tensor x = randn({rows, dim}, 1, {dtype});
  mlp.forward(x);  // packs the weights
  EXPECT_THAT(kernels_of([&] { mlp.forward(x); }),
              ElementsAre(StartsWith("panel_gated_mlp_gelu_tanh_" + arithmetic)));
  const int64_t before = memory_stats().allocated;
  reset_peak_memory();
  const Tensor y = mlp.forward(x);
  const int64_t allowed = static_cast<int64_t>(y.nbytes()) + (int64_t{8} << 20) * thread_count();
  EXPECT_LE(memory_stats().peak_allocated - before, allowed) << dtype_name(dtype);
  set_thread_count(threads);
}

TEST(GatedPanels, ForwardIsOneKernelAndLeavesHiddenOutOfMemory) {
  for (const DType dtype : {DType::f32, DType::f16}) check_memory(dtype);
  if (!kSanitized) check_memory(DType::f16, 300, 16384, 64);  // x takes most of it
}

TEST(GatedTiles, ForwardByVectorsIsOneKernelAndLeavesHiddenOutOfMemory) {
  const WithEmulatedTiles tiles(cpu::TileUnit::vectors);
  if (kSanitized) return check_memory(DType::bf16, 100, 16, 64, "avx512_bf16");
  check_memory(DType::bf16, 4096, 16, 4096, "avx512_bf16");
  check_memory(DType::bf16, 60, 16, 16384, "avx512_bf16");  // kept between the products
}

TEST(GatedTiles, ForwardIsOneKernelAndLeavesHiddenOutOfMemory) {
  const WithTiles tiles;
  if (kSanitized) return check_memory(DType::bf16, 100, 16, 64);
  check_memory(DType::bf16);
  check_memory(DType::bf16, 380, 16, 16384);  // just few enough rows to be kept between the products
}

TEST(GatedParts, ForwardIsOneKernelAndLeavesHiddenOutOfMemory) {
  const WithTiles tiles;
  const std::string by = "amx_f32_bf16x3";
  if (kSanitized) return check_memory(DType::f32, 100, 16, 64, by);
  check_memory(DType::f32, 1300, 16, 4096, by);
  check_memory(DType::f32, 120, 16, 16384, by);
  check_memory(DType::f32, 65, 16, 32000, by);
  check_memory(DType::f32, 300, 16384, 64, by);  // x takes most of it
}

TEST(GatedPanels, WeightsThatWereWrittenArePackedAnew) {
  GatedWeights weights = make_weights(40, 60, 30, false, DType::f32);
  const Tensor x = randn({9, 40}, 7);
  gated_mlp(x, weights, Act::silu);
  weights.up.copy_(randn({60, 40}, 8));
  expect_close(gated_mlp(x, weights, Act::silu), in_f64(x, weights, Act::silu, true), "written");
}

TEST(GatedPanels, RefusesWithAReasonWhatItDoesNotTake) {
  const auto refusal = [](const Tensor& x, const GatedWeights& w) {
    const Tensor inputs[] = {x, w.gate, w.up, w.down};
    Tensor output = empty({x.size(0), w.down.size(0)}, {x.dtype()});
    const Attrs attrs{.act = Act::silu};
    const char* reason = cpu::refuse_gated({Op::gated_mlp, attrs, inputs, output});
    return std::string(reason ? reason : "");
  };
  const GatedWeights f32 = make_weights(8, 16, 8, false, DType::f32);
  EXPECT_EQ(refusal(randn({4, 8}, 1), f32), "");
  EXPECT_EQ(refusal(randn({4, 8}, 1, {DType::f64}), make_weights(8, 16, 8, false, DType::f64)),
            "its kernel computes in f32 only");
  GatedWeights plain = f32;
  plain.down = randn({8, 16}, 3);
  EXPECT_EQ(refusal(randn({4, 8}, 1), plain), "a weight is no parameter, so its panels cannot be kept");
  EXPECT_EQ(refusal(randn({2, 5, 8}, 1).slice(1, 1, 5), f32), "the rows of x are not evenly apart");
}

}  // namespace
}  // namespace epilogue
