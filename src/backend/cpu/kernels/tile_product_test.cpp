// Products by tiles, with the instructions of AMX or of AVX512-BF16 emulated: layouts, and linear layers
// against float64.
#include "backend/cpu/kernels/tile_product.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/cpu/kernels/tile_pack.h"
#include "base/half.h"
#include "base/threads.h"
#include "epilogue/compile.h"
#include "epilogue/ops.h"
#include "sanitized.h"
#include "traced.h"

namespace epilogue {
namespace {

using testing::Contains;
using testing::StartsWith;

class TileProduct : public testing::Test {
 protected:
  explicit TileProduct(cpu::TileUnit unit = cpu::TileUnit::amx) { cpu::emulate_tiles(unit); }
  ~TileProduct() override {
    cpu::emulate_tiles(cpu::TileUnit::none);
    set_thread_count(threads_);
  }
  const int threads_ = thread_count();
};

// Whichever unit multiplies.
class TileProductBf16 : public TileProduct, public testing::WithParamInterface<cpu::TileUnit> {
 protected:
  TileProductBf16() : TileProduct(GetParam()) {}
  std::string arithmetic() const { return GetParam() == cpu::TileUnit::amx ? "amx_bf16" : "avx512_bf16"; }
};
INSTANTIATE_TEST_SUITE_P(By, TileProductBf16, testing::Values(cpu::TileUnit::amx, cpu::TileUnit::vectors),
                         [](const auto& unit) {
                           return unit.param == cpu::TileUnit::amx ? "amx" : "vectors";
                         });

TEST_F(TileProduct, RowsBecomeTilesWithZerosAfterThem) {
  const int64_t rows = 19, columns = 37, stride = 64;
  std::vector<uint16_t> plain(static_cast<size_t>(2 * rows * columns));
  for (size_t i = 0; i < plain.size(); ++i) plain[i] = static_cast<uint16_t>(i + 1);
  for (const int64_t column_stride : {1, 2}) {
    std::vector<uint16_t> tiles(static_cast<size_t>(32 * stride), 0xffff);
    cpu::rows_to_tiles({plain.data(), rows, columns, columns * column_stride, column_stride}, tiles.data(),
                       stride);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < stride; ++c)
        EXPECT_EQ(tiles[static_cast<size_t>(cpu::tile_offset(r, c, stride))],
                  c < columns ? r * columns * column_stride + c * column_stride + 1 : 0)
            << r << ", " << c;
  }
}

TEST_F(TileProduct, AGatedRowGoesIntoItsTileWithZerosAfterIt) {
  std::vector<float> gate(40), up(40);
  for (size_t i = 0; i < gate.size(); ++i)
    gate[i] = static_cast<float>(i) - 15.5f, up[i] = 3.0f + static_cast<float>(i);
  for (const cpu::PanelForm form : {cpu::PanelForm::tiles, cpu::PanelForm::parts})
    for (const int64_t columns : {32, 20, 1}) {
      std::vector<uint16_t> tiles(static_cast<size_t>(cpu::kParts * 16 * 32), 0xffff);
      uint16_t* row = tiles.data() + 5 * 32;
      EXPECT_TRUE(cpu::gated_tile_row(Act::relu, form)(gate.data(), up.data(), columns, row));
      for (int64_t c = 0; c < 32; ++c) {
        const auto i = static_cast<size_t>(c);
        const float expected = c < columns && gate[i] > 0 ? gate[i] * up[i] : 0;
        const float sum =
            f32_from_bf16(row[c]) + (f32_from_bf16(row[512 + c]) + f32_from_bf16(row[1024 + c]));
        EXPECT_EQ(form == cpu::PanelForm::parts ? sum : f32_from_bf16(row[c]),
                  form == cpu::PanelForm::parts ? expected : f32_from_bf16(bf16_from_f32(expected)))
            << columns << ": " << c;
      }
      EXPECT_EQ(row[-1], 0xffff);
      EXPECT_EQ(row[32], 0xffff);
    }
}

// Numbers of every size, and their neighbours.
std::vector<float> numbers(size_t count) {
  std::vector<float> all(count);
  std::mt19937 random(1);
  for (float& x : all) {
    while (!std::isfinite(x) || std::abs(x) < 1e-30f)  // whose parts AMX would take as 0
      x = std::bit_cast<float>(static_cast<uint32_t>(random()));
  }
  all[0] = std::numeric_limits<float>::max(), all[1] = -all[0], all[2] = 0;
  return all;
}

TEST_F(TileProduct, ANumberIsTheSumOfItsParts) {
  const int64_t rows = 19, columns = 37, stride = 64;
  for (const int64_t column_stride : {1, 2}) {
    const std::vector<float> plain = numbers(static_cast<size_t>(2 * rows * columns));
    std::vector<uint16_t> tiles(static_cast<size_t>(cpu::kParts * 32 * stride), 0xffff);
    EXPECT_TRUE(cpu::rows_to_parts({plain.data(), rows, columns, columns * column_stride, column_stride},
                                   tiles.data(), stride));
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < stride; ++c) {
        const uint16_t* first = tiles.data() +
                                cpu::kParts * cpu::tile_offset(r / 16 * 16, c / 32 * 32, stride) +
                                r % 16 * 32 + c % 32;
        const float sum = f32_from_bf16(first[0]) + (f32_from_bf16(first[512]) + f32_from_bf16(first[1024]));
        EXPECT_EQ(sum, c < columns ? plain[static_cast<size_t>((r * columns + c) * column_stride)] : 0)
            << r << ", " << c;
      }
  }
}

TEST_F(TileProduct, PartsOfWhatIsNotFiniteAreReported) {
  std::vector<uint16_t> tiles(static_cast<size_t>(cpu::kParts * 16 * 32));
  for (const float odd : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                          std::nanf(""), std::bit_cast<float>(0x7f800001U)}) {
    std::vector<float> row = numbers(20);
    row[17] = odd;
    EXPECT_FALSE(cpu::rows_to_parts({row.data(), 1, 20, 20, 1}, tiles.data(), 32));
  }
}

// Whatever the shape of the product, and where there is no time for all of it on the way.
TEST_P(TileProductBf16, OtherWorkIsDoneOnceAndInItsOrder) {
  std::vector<cpu::PanelForm> forms{cpu::PanelForm::vectors, cpu::PanelForm::tiles};
  if (GetParam() == cpu::TileUnit::amx) forms.push_back(cpu::PanelForm::parts);
  for (const cpu::PanelForm form : forms)
    for (const auto& [rows, n, k] : {std::array<int64_t, 3>{1, 10, 32}, {16, 200, 64}, {70, 33, 96}})
      for (const int64_t pieces : {0, 1, 7, 300}) {
        cpu::PanelWeight weight{
            .dtype = form == cpu::PanelForm::tiles ? DType::bf16 : DType::f32, .form = form, .n = n, .k = k};
        const int64_t bytes = cpu::panel_element_bytes(form, weight.dtype);
        const Tensor panels = zeros({cpu::panel_elements(form, n, k) * bytes / 4 + 16}, {DType::f32});
        const Tensor x = zeros({cpu::round_up(rows, 32) * k * bytes / 4}, {DType::f32});
        Tensor y = zeros({rows, n}, {DType::f32});
        weight.panels = panels.data();
        std::vector<int64_t> done, expected;
        const auto note = [&done](int64_t piece) { done.push_back(piece); };
        for (int64_t i = 5; i < 5 + pieces; ++i) expected.push_back(i);
        const cpu::Aside aside{note, {5, 5 + pieces}};
        cpu::multiply_panels({.rows = x.data(),
                              .row_stride = k,
                              .row_count = rows,
                              .rows_in_tiles = weight.in_tiles(),
                              .weight = weight,
                              .depth = {0, k},
                              .columns = {0, n},
                              .c = static_cast<float*>(y.mutable_data()),
                              .c_stride = n,
                              .aside = &aside});
        EXPECT_EQ(done, expected) << static_cast<int>(form) << ": " << rows << " x " << n << " x " << k;
      }
}

// Relative to the largest element.
void expect_linear_close(const Tensor& found, const Tensor& expected, const std::string& what) {
  const Tensor a = found.to(DType::f64).contiguous(), b = expected.contiguous();
  ASSERT_EQ(a.sizes(), b.sizes()) << what;
  double worst = 0, largest = 1e-3;
  for (int64_t i = 0; i < a.numel(); ++i) {
    worst = std::max(worst, std::abs(a.data<double>()[i] - b.data<double>()[i]));
    largest = std::max(largest, std::abs(b.data<double>()[i]));
  }
  const double store = found.dtype() == DType::bf16 ? 0x1p-8 : 0;
  EXPECT_LE(worst, (store + 4e-6) * largest) << what;
}

struct ProductSizes {
  int64_t m, k, n;
};
constexpr ProductSizes kProductSizes[] = {{1, 1, 1},    {1, 64, 300},   {2, 40, 130},
                                          {4, 33, 200}, {16, 32, 32},   {17, 33, 70},
                                          {5, 64, 200}, {33, 1100, 70}, {200, 64, 96}};

// Of the sizes; emulation is slow under sanitizers, and all have run without them.
bool is_large(const ProductSizes& sizes) { return sizes.m * sizes.k * sizes.n > 100'000; }

TEST_P(TileProductBf16, LinearsMatchFloat64) {
  for (const int threads : {1, 3})
    for (const ProductSizes& sizes : kProductSizes)
      for (const int layout : {0, 1, 2, 3}) {
        if (kSanitized && is_large(sizes)) continue;
        const auto [m, k, n] = sizes;
        set_thread_count(threads);
        const Tensor whole = randn({2 * m + 3, 2 * k + 5}, 1, {DType::bf16});
        const Tensor x = layout == 0   ? randn({m, k}, 1, {DType::bf16})
                         : layout == 1 ? whole.slice(0, 2, m + 2).slice(1, 1, k + 1)
                         : layout == 2 ? randn({k, m}, 1, {DType::bf16}).t()
                                       : whole.slice(0, 0, m).slice(1, 0, 2 * k, 2);
        Tensor w = randn({n, k}, 2, {DType::bf16}).set_parameter();
        const Tensor b = layout == 1 ? randn({n}, 3, {DType::bf16}) : Tensor();
        const Tensor wide = linear(x.to(DType::f64), w.to(DType::f64), b.defined() ? b.to(DType::f64) : b);
        const std::string what = std::to_string(m) + "x" + std::to_string(k) + "x" + std::to_string(n) +
                                 " layout " + std::to_string(layout) + ", " + std::to_string(threads) +
                                 " threads";
        EXPECT_THAT(kernels_of([&] { expect_linear_close(linear(x, w, b), wide, what); }),
                    Contains("panel_gemm_" + arithmetic()));
      }
}

TEST_F(TileProduct, LinearsOfF32MatchFloat64ByTheirParts) {
  for (const int threads : {1, 3})
    for (const ProductSizes& sizes : {ProductSizes{64, 1, 1}, {65, 33, 70}, {97, 1100, 40}, {900, 40, 64}}) {
      if (kSanitized && is_large(sizes)) continue;
      const auto [m, k, n] = sizes;
      set_thread_count(threads);
      const Tensor x = m % 2 ? randn({k, m}, 1).t() : randn({m, k}, 1);
      const Tensor w = randn({n, k}, 2).set_parameter(), b = randn({n}, 3);
      const Tensor wide = linear(x.to(DType::f64), w.to(DType::f64), b.to(DType::f64));
      EXPECT_THAT(kernels_of([&] { expect_linear_close(linear(x, w, b), wide, std::to_string(m)); }),
                  Contains("panel_gemm_amx_f32_bf16x3"));
    }
}

TEST_F(TileProduct, ActivationsGoIntoTheEpilogueOfF32) {
  const Tensor w = randn({40, 50}, 2).set_parameter();
  const CompiledFunction f = compile([w](const Tensor& t) { return gelu(linear(t, w)); });
  f(randn({70, 50}, 1));
  f.wait_ready();
  for (const int64_t m : {70, 300}) {
    Tensor x = randn({m, 50}, 1);
    const Tensor wide = gelu(linear(x.to(DType::f64), w.to(DType::f64)));
    EXPECT_THAT(kernels_of([&] { expect_linear_close(f(x), wide, std::to_string(m)); }),
                Contains("panel_gemm_amx_f32_bf16x3_gelu"));
    x.mutable_data<float>()[7] = std::numeric_limits<float>::infinity();
    const Tensor odd = f(x), plain = gelu(linear(x.to(DType::f64), w.to(DType::f64)));
    for (int64_t i = 0; i < 40; ++i) {
      const double wanted = plain.data<double>()[i], found = odd.data<float>()[i];
      EXPECT_TRUE(found == wanted || (std::isnan(found) && std::isnan(wanted))) << i;
    }
  }
}

// Its own dtype decides how a product runs, not the dtype that its epilogue leaves.
TEST_F(TileProduct, AnEpilogueThatConvertsChangesNothingOfTheProduct) {
  for (const auto& [from, to] : {std::pair{DType::f32, DType::bf16},
                                 {DType::bf16, DType::f32},
                                 {DType::f16, DType::f32},
                                 {DType::f64, DType::f32},
                                 {DType::f32, DType::f64}})
    for (const int64_t m : {5, 70}) {
      const Tensor x = randn({m, 50}, 1, {from}), w = randn({40, 50}, 2, {from}).set_parameter();
      const CompiledFunction f = compile([w, to = to](const Tensor& t) { return gelu(linear(t, w)).to(to); });
      f(x);
      f.wait_ready();
      const Tensor found = f(x), wide = gelu(linear(x.to(DType::f64), w.to(DType::f64)));
      ASSERT_EQ(found.dtype(), to);
      const bool coarse = from == DType::bf16 || from == DType::f16 || to == DType::bf16;
      expect_linear_close(coarse ? found.to(DType::bf16) : found, wide,
                          std::string(dtype_name(from)) + " to " + dtype_name(to) + ", " + std::to_string(m));
    }
}

TEST_P(TileProductBf16, ActivationsGoIntoTheEpilogue) {
  for (const int threads : {1, 3})
    for (const ProductSizes& sizes : kProductSizes) {
      if (kSanitized && is_large(sizes)) continue;
      const auto [m, k, n] = sizes;
      set_thread_count(threads);
      const Tensor x = randn({m, k}, 1, {DType::bf16});
      const Tensor w = randn({n, k}, 2, {DType::bf16}).set_parameter();
      const CompiledFunction f = compile([w](const Tensor& t) { return gelu(linear(t, w)); });
      f(x);
      f.wait_ready();
      const Tensor wide = gelu(linear(x.to(DType::f64), w.to(DType::f64)));
      EXPECT_THAT(kernels_of([&] { expect_linear_close(f(x), wide, std::to_string(m)); }),
                  Contains("panel_gemm_" + arithmetic() + "_gelu"));
    }
}

}  // namespace
}  // namespace epilogue
