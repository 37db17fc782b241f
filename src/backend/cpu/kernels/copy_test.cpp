#include "backend/cpu/kernels/copy.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "backend/cpu/isa.h"
#include "backend/cpu/kernels/loop_test_data.h"

namespace epilogue::cpu {
namespace {

class CopyIsa : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    set_isa_cap(GetParam());
    if (std::string_view(isa_name()) != GetParam()) GTEST_SKIP() << "this machine has no " << GetParam();
  }
  void TearDown() override { set_isa_cap(""); }
};
INSTANTIATE_TEST_SUITE_P(Each, CopyIsa, testing::Values("scalar", "avx2", "avx512"),
                         [](const auto& isa) { return isa.param; });

template <class From, class To>
To convert_one(DType from, DType to, From value) {
  To result{};
  copy_kernel(from, to).row(&result, &value, nullptr, 1);
  return result;
}

TEST_P(CopyIsa, NamesSayFromToAndInstructions) {
  EXPECT_EQ(copy_kernel(DType::f32, DType::bf16).name, "copy_f32_bf16_" + std::string(GetParam()));
}

TEST_P(CopyIsa, AnyLayoutOfAnyPairAgreesWithANaiveIndexer) {
  std::mt19937 random(11);
  std::normal_distribution<double> normal(0, 1000);
  for (const DType from : kAllDTypes)
    for (const DType to : kAllDTypes)
      for (int round = 0; round < 60; ++round) {
        RandomLoop data(random, {to, from});
        data.for_each_element([&](const auto& at) { write_element(from, at[1], normal(random)); });
        StridedLoop loop = data.loop;
        loop.collapse();
        run_rows(loop, copy_kernel(from, to).row);
        data.for_each_element([&](const auto& at) {
          char expected[8];
          write_element(to, expected, read_element(from, at[1]));
          ASSERT_EQ(std::memcmp(at[0], expected, static_cast<size_t>(size_of(to))), 0)
              << copy_kernel(from, to).name << " round " << round << " of " << read_element(from, at[1]);
        });
      }
}

TEST_P(CopyIsa, ATransposeMovesEveryElement) {
  const int64_t rows = 301, columns = 517;
  std::vector<float> in(rows * columns), out(in.size());
  std::iota(in.begin(), in.end(), 0.0f);
  StridedLoop loop;
  loop.dims = loop.operands = 2;
  loop.sizes = {rows, columns};
  loop.operand[0] = {reinterpret_cast<char*>(out.data()), 4, {4, 4 * rows}};
  loop.operand[1] = {reinterpret_cast<char*>(in.data()), 4, {4 * columns, 4}};
  loop.collapse();
  run_rows(loop, copy_kernel(DType::f32, DType::f32).row);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) ASSERT_EQ(out[c * rows + r], in[r * columns + c]);
}

TEST_P(CopyIsa, Every16BitPatternSurvivesF32AndBack) {
  for (const DType half : {DType::bf16, DType::f16}) {
    std::vector<uint16_t> bits(65536), back(bits.size());
    std::vector<float> wide(bits.size());
    std::iota(bits.begin(), bits.end(), uint16_t{0});
    copy_kernel(half, DType::f32).row(wide.data(), bits.data(), nullptr, 65536);
    copy_kernel(DType::f32, half).row(back.data(), wide.data(), nullptr, 65536);
    for (size_t i = 0; i < bits.size(); ++i) {
      const float expected = half == DType::bf16 ? f32_from_bf16(bits[i]) : f32_from_f16(bits[i]);
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(wide[i]));
        const float again = half == DType::bf16 ? f32_from_bf16(back[i]) : f32_from_f16(back[i]);
        ASSERT_TRUE(std::isnan(again)) << i;
      } else {
        ASSERT_EQ(wide[i], expected) << i;
        ASSERT_EQ(back[i], bits[i]) << i;
      }
    }
  }
}

// Against exact halves of the gap between neighbours, which double holds for both formats.
TEST_P(CopyIsa, NarrowingRoundsToNearestEven) {
  for (const DType half : {DType::bf16, DType::f16}) {
    const auto value = [&](uint32_t bits) {
      const uint16_t narrow = static_cast<uint16_t>(bits);
      return static_cast<double>(half == DType::bf16 ? f32_from_bf16(narrow) : f32_from_f16(narrow));
    };
    const uint32_t infinity = half == DType::bf16 ? 0x7f80 : 0x7c00;
    for (uint32_t bits = 0; bits + 1 < infinity; ++bits) {
      const float middle = static_cast<float>((value(bits) + value(bits + 1)) / 2);
      const auto narrow = [&](float x) {
        float row[16];
        uint16_t out[16];
        std::fill_n(row, 16, x);
        copy_kernel(DType::f32, half).row(out, row, nullptr, 16);
        return static_cast<uint32_t>(out[5]);
      };
      ASSERT_EQ(narrow(middle), bits + (bits & 1)) << middle;
      ASSERT_EQ(narrow(std::nextafter(middle, 0.0f)), bits) << middle;
      ASSERT_EQ(narrow(std::nextafter(middle, std::numeric_limits<float>::infinity())), bits + 1) << middle;
    }
  }
  EXPECT_EQ((convert_one<float, uint16_t>(DType::f32, DType::f16, 65519.0f)), 0x7bff);
  EXPECT_EQ((convert_one<float, uint16_t>(DType::f32, DType::f16, -65520.0f)), 0xfc00);
}

TEST_P(CopyIsa, FloatsBecomeIntegersByTruncationAndSaturate) {
  const auto i32 = [](double x) { return convert_one<double, int32_t>(DType::f64, DType::i32, x); };
  const auto i64 = [](float x) { return convert_one<float, int64_t>(DType::f32, DType::i64, x); };
  EXPECT_EQ(i32(-1.99), -1);
  EXPECT_EQ(i32(2147483647.5), 2147483647);
  EXPECT_EQ(i32(1e30), std::numeric_limits<int32_t>::max());
  EXPECT_EQ(i32(-1e30), std::numeric_limits<int32_t>::min());
  EXPECT_EQ(i32(std::nan("")), 0);
  EXPECT_EQ(i64(1e19f), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(i64(-std::numeric_limits<float>::infinity()), std::numeric_limits<int64_t>::min());
  EXPECT_EQ((convert_one<int64_t, int32_t>(DType::i64, DType::i32, (int64_t{1} << 32) + 5)), 5);
}

TEST(Copy, CallConvertsIntoAStridedViewAndNamesItsKernel) {
  const Tensor row = arange(6);
  Tensor whole = zeros({4, 6, 2}, {.dtype = DType::bf16}), column = whole.select(2, 1);
  const Attrs attrs;
  const Tensor inputs[] = {column, row};
  EXPECT_EQ(run_copy({Op::copy_, attrs, inputs, column}).name, "copy_f32_bf16_" + std::string(isa_name()));
  for (int64_t i = 0; i < 48; ++i)
    EXPECT_EQ(f32_from_bf16(whole.data<uint16_t>()[i]), static_cast<float>(i % 2 ? i / 2 % 6 : 0));
}

TEST(Copy, FillWritesTheViewAlone) {
  for (const DType dtype : kAllDTypes) {
    Tensor whole = zeros({7, 100}, {.dtype = dtype}), part = whole.slice(1, 3, 100, 2);
    Attrs attrs;
    attrs.value = -3;
    EXPECT_EQ(run_fill({Op::fill_, attrs, std::span(&part, 1), part}).name,
              std::string("fill_") + dtype_name(dtype));
    const char* at = static_cast<const char*>(whole.data());
    for (int64_t i = 0; i < 700; ++i, at += size_of(dtype))
      ASSERT_EQ(read_element(dtype, at), i % 100 >= 3 && i % 2 ? -3 : 0) << dtype_name(dtype) << " " << i;
  }
}

}  // namespace
}  // namespace epilogue::cpu
