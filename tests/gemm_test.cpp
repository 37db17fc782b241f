// Matrix products of every dtype, layout and size against float64.
#include <cmath>

#include <gtest/gtest.h>

#include "base/threads.h"
#include "close.h"
#include "devices.h"
#include "epilogue/nn.h"
#include "epilogue/ops.h"

namespace epilogue {
namespace {

// Rounding of the stored result plus that of k products in f32, relative to the size of the sum's terms.
double allowed_error(DType dtype, int64_t k) {
  const double store = dtype == DType::bf16  ? 0x1p-8
                       : dtype == DType::f16 ? 0x1p-11
                       : dtype == DType::f32 ? 0x1p-23
                                             : 0x1p-50;
  const double accumulate = dtype == DType::f64 ? 0x1p-50 : 0x1p-22;
  const auto scale = std::sqrt(static_cast<double>(k) + 1);
  // Where alignment leaves cuBLASLt no kernel with the bias in it, the sum is rounded before the bias as
  // well.
  return (6 * store + accumulate * scale) * scale + 1e-6;
}

struct Case {
  int64_t m, n, k;
  DType dtype;
  Device device;
};

void PrintTo(const Case& c, std::ostream* os) {
  *os << device_name(c.device) << " " << dtype_name(c.dtype) << " " << c.m << "x" << c.n << "x" << c.k;
}

class Gemm : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (const std::string why = why_not_here(GetParam().device); !why.empty()) GTEST_SKIP() << why;
  }
};

TEST(GemmLayout, ParametersWhoseElementsShareMemoryMultiplyAsTheirCopies) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    const Tensor store = randn({256}, 1, {dtype}), x = randn({5, 40}, 2, {dtype});
    const Tensor bias = randn({48}, 3, {dtype}).slice(0, 0, 48, 2);  // which the panels' kernel refuses
    const Tensor sliding = store.as_strided({40, 24}, {1, 1}, 0),
                 row = store.slice(0, 0, 24).expand({40, 24}),
                 column = store.slice(0, 0, 40).view({40, 1}).expand({40, 24});
    for (Tensor weight : {sliding, sliding.t().contiguous().t(), row, column}) {
      const Tensor expected = mm(x.to(DType::f64), weight.contiguous().to(DType::f64));
      weight.set_parameter();
      EXPECT_LE(max_error(mm(x, weight), expected), allowed_error(dtype, 40));
      EXPECT_LE(max_error(addmm(bias, x, weight), add(expected, bias.to(DType::f64))),
                allowed_error(dtype, 40))
          << dtype_name(dtype) << " " << weight.strides().to_string();
    }
  }
}

TEST_P(Gemm, MatchesFloat64InEveryLayout) {
  const auto [m, n, k, dtype, device] = GetParam();
  const double bound = allowed_error(dtype, k);
  const TensorOptions options{dtype, device};
  const Tensor a = randn({m, k}, 1, options), b = randn({k, n}, 2, options), row = randn({n}, 3, options);
  const Tensor full_bias = randn({m, n}, 4, options), column = randn({m, 1}, 5, options);
  const Tensor expected = mm(a.to(DType::f64), b.to(DType::f64));
  const Tensor a_columns = a.t().contiguous().t(), b_columns = b.t().contiguous().t();
  const Tensor a_sliced = randn({m, 2 * k}, 6, options).slice(1, 0, 2 * k, 2);
  for (const Tensor& left : {a, a_columns})
    for (const Tensor& right : {b, b_columns}) {
      EXPECT_LE(max_error(mm(left, right), expected), bound);
      EXPECT_LE(max_error(addmm(row, left, right), add(expected, row.to(DType::f64))), bound);
      EXPECT_LE(max_error(addmm(full_bias, left, right), add(expected, full_bias.to(DType::f64))), bound);
      EXPECT_LE(max_error(addmm(column, left, right), add(expected, column.to(DType::f64))), bound);
    }
  EXPECT_LE(max_error(mm(a_sliced, b), mm(a_sliced.to(DType::f64), b.to(DType::f64))), bound);
  const Tensor repeated = a.slice(0, 0, 1).expand({m, k});
  EXPECT_LE(max_error(mm(repeated, b), mm(repeated.to(DType::f64), b.to(DType::f64))), bound);
}

TEST_P(Gemm, PackedWeightGivesWhatThePlainOneGives) {
  const auto [m, n, k, dtype, device] = GetParam();
  const TensorOptions options{dtype, device};
  const Tensor x = randn({m, k}, 1, options), bias = randn({n}, 3, options);
  Tensor weight = randn({n, k}, 2, options);
  const Tensor expected = add(mm(x.to(DType::f64), weight.to(DType::f64).t()), bias.to(DType::f64));
  weight.set_parameter();
  for (int again = 0; again < 2; ++again)
    EXPECT_LE(max_error(linear(x, weight, bias), expected), allowed_error(dtype, k));
  // Written in place: the packed copy must not be used again.
  weight.copy_(randn({n, k}, 9));
  const Tensor changed = add(mm(x.to(DType::f64), weight.to(DType::f64).t()), bias.to(DType::f64));
  EXPECT_LE(max_error(linear(x, weight, bias), changed), allowed_error(dtype, k));
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Device device : {kCpu, kCuda})
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64})
      for (const auto [m, n, k] : {std::array{1, 64, 32},
                                   {1, 1, 1},
                                   {2, 3, 5},
                                   {17, 80, 48},
                                   {64, 1, 100},
                                   {1, 100, 64},
                                   {130, 70, 33},
                                   {128, 256, 64},
                                   {300, 65, 129},
                                   {515, 96, 64}})
        all.push_back({m, n, k, dtype, device});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Sizes, Gemm, testing::ValuesIn(cases()));

class GemmShapes : public OnDevice {};
INSTANTIATE_ON_EVERY_DEVICE(GemmShapes);

TEST_P(GemmShapes, SizesOfZeroGiveEmptyOrBias) {
  const TensorOptions there{DType::f32, GetParam()};
  const auto zeros = [&](const Dims& sizes) { return epilogue::zeros(sizes, there); };
  const auto empty = [&](const Dims& sizes) { return epilogue::empty(sizes, there); };
  const auto randn = [&](const Dims& sizes, uint64_t seed) { return epilogue::randn(sizes, seed, there); };
  const Tensor bias = randn({3}, 1);
  EXPECT_EQ(mm(zeros({0, 4}), zeros({4, 3})).sizes(), (Dims{0, 3}));
  EXPECT_EQ(mm(zeros({2, 4}), zeros({4, 0})).sizes(), (Dims{2, 0}));
  EXPECT_EQ(max_error(mm(empty({2, 0}), empty({0, 3})), zeros({2, 3})), 0);
  EXPECT_EQ(max_error(addmm(bias, empty({2, 0}), empty({0, 3})), bias.expand({2, 3})), 0);
  EXPECT_EQ(linear(zeros({2, 0, 4}), zeros({5, 4})).sizes(), (Dims{2, 0, 5}));
  EXPECT_EQ(max_error(linear(empty({2, 3, 0}), empty({5, 0})), zeros({2, 3, 5})), 0);
  EXPECT_EQ(max_error(linear(empty({0}), empty({5, 0})), zeros({5})), 0);
  EXPECT_EQ(max_error(matmul(empty({2, 3, 0}), empty({0, 5})), zeros({2, 3, 5})), 0);
}

TEST_P(GemmShapes, MatmulFollowsPyTorchs) {
  const auto randn = [&](const Dims& sizes, uint64_t seed) {
    return epilogue::randn(sizes, seed, {DType::f32, GetParam()});
  };
  const auto shape = [&](const Dims& a, const Dims& b) { return matmul(randn(a, 1), randn(b, 2)).sizes(); };
  EXPECT_EQ(shape({4}, {4}), (Dims{}));
  EXPECT_EQ(shape({4}, {4, 5}), (Dims{5}));
  EXPECT_EQ(shape({3, 4}, {4}), (Dims{3}));
  EXPECT_EQ(shape({2, 3, 4}, {4}), (Dims{2, 3}));
  EXPECT_EQ(shape({2, 3, 4}, {4, 5}), (Dims{2, 3, 5}));
  EXPECT_EQ(shape({4}, {2, 4, 5}), (Dims{2, 5}));
  EXPECT_EQ(shape({7, 1, 3, 4}, {2, 4, 5}), (Dims{7, 2, 3, 5}));
  EXPECT_THROW(shape({3, 4}, {5, 4}), Error);
  EXPECT_THROW(shape({2, 3, 4}, {3, 4, 5}), Error);
  const Tensor a = randn({2, 3, 4}, 1), b = randn({2, 4, 5}, 2);
  for (int64_t i = 0; i < 2; ++i)
    EXPECT_LE(max_error(matmul(a, b).select(0, i), mm(a.select(0, i), b.select(0, i))), 1e-6);
}

TEST(Linear, ErrorNamesTheOpTheShapesAndWhatWasExpected) {
  try {
    linear(randn({2, 3}, 1), randn({5, 4}, 2));
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "ep::linear: x f32 [2, 3] does not fit weight f32 [5, 4]: expected x [..., 4] for a weight "
                 "of [out, in]");
  }
  EXPECT_THROW(linear(randn({2, 4}, 1), randn({5, 4}, 2).to(DType::bf16)), Error);
  EXPECT_THROW(linear(randn({2, 4}, 1), randn({5, 4}, 2), randn({4}, 3)), Error);
  EXPECT_THROW(mm(zeros({2, 2}, {DType::i32}), zeros({2, 2}, {DType::i32})), Error);
  EXPECT_THROW(linear({}, randn({5, 4}, 2)), Error);
}

TEST(Linear, FoldsLeadingDimensions) {
  const nn::Linear layer(40, 24);
  const Tensor x = randn({5, 3, 40}, 1);
  EXPECT_EQ(layer.forward(x).sizes(), (Dims{5, 3, 24}));
  EXPECT_LE(max_error(layer.forward(x.transpose(0, 1)), layer.forward(x).transpose(0, 1)), 1e-5);
}

TEST(Gemm, MoreThreadsThanRowsOrCoresGiveTheSameResult) {
  const int before = thread_count();
  for (const DType dtype : {DType::f32, DType::f16}) {
    const Tensor x = randn({130, 128}, 1).to(dtype), weight = randn({128, 128}, 2).to(dtype);
    const Tensor expected = mm(x.to(DType::f64), weight.to(DType::f64).t());
    set_thread_count(200);
    EXPECT_LE(max_error(linear(x, weight), expected), allowed_error(dtype, 128));
    set_thread_count(1);
    EXPECT_LE(max_error(linear(x, weight), expected), allowed_error(dtype, 128));
    set_thread_count(before);
  }
}

TEST(Gemm, BlocksOfRowsMatchFloat64) {
  const Tensor x = randn({6500, 24}, 1), weight = randn({40, 24}, 2);
  const Tensor expected = mm(x.to(DType::f64), weight.to(DType::f64).t());
  EXPECT_LE(max_error(linear(x, weight), expected), allowed_error(DType::f32, 24));
}

TEST(Gemm, GivesTheSameBitsAtAnyCallOfTheSameSize) {
  const nn::GatedMlp mlp(64, 96);
  const Tensor x = randn({257, 64}, 3);
  const Tensor first = mlp.forward(x);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(max_error(mlp.forward(x), first), 0);
}

}  // namespace
}  // namespace epilogue
