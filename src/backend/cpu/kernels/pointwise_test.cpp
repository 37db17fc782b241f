#include "backend/cpu/kernels/pointwise.h"

#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include <gtest/gtest.h>

#include "backend/cpu/isa.h"
#include "backend/cpu/kernels/loop_test_data.h"
#include "base/threads.h"
#include "sanitized.h"

namespace epilogue::cpu {
namespace {

long double reference(Pointwise function, long double x, long double y) {
  const long double root = std::sqrt(2 / std::numbers::pi_v<long double>);
  switch (function) {
    case Pointwise::add:
      return x + y;
    case Pointwise::mul:
      return x * y;
    case Pointwise::relu:
      return x < 0 ? 0 : x;
    case Pointwise::silu:
      return x / (1 + std::exp(-x));
    case Pointwise::gelu_tanh:
      return x / (1 + std::exp(-2 * root * (x + 0.044715L * x * x * x)));
    case Pointwise::gelu:
      return x / 2 * std::erfc(-x / std::numbers::sqrt2_v<long double>);
    case Pointwise::silu_mul:
      return reference(Pointwise::silu, x, 0) * y;
    case Pointwise::gelu_tanh_mul:
      return reference(Pointwise::gelu_tanh, x, 0) * y;
    case Pointwise::gelu_mul:
      return reference(Pointwise::gelu, x, 0) * y;
    case Pointwise::count:
      break;
  }
  return 0;
}

// Half a unit in the last place for the rounding to `dtype`, and what the computation in f32 (f64) may lose.
double allowed_error(Pointwise function, DType dtype, double expected) {
  const bool exact = function <= Pointwise::relu;
  const double magnitude = std::abs(expected);
  const auto half_ulp = [&](int mantissa_bits, int least_exponent) {
    return std::ldexp(0.5, std::max(std::ilogb(magnitude), least_exponent) - mantissa_bits);
  };
  switch (dtype) {
    case DType::f64:
      return exact ? half_ulp(51, -1022) : 1e-12 * magnitude;
    case DType::f32:
      return exact ? half_ulp(23, -126) : 1e-5 * magnitude + 1e-30;
    case DType::bf16:
      return half_ulp(7, -126) + 1e-5 * magnitude + 1e-30;
    case DType::f16:
      return half_ulp(10, -14) + 1e-5 * magnitude;
    default:
      return 0;
  }
}

std::vector<Pointwise> functions_for(DType dtype) {
  std::vector<Pointwise> functions;
  for (int f = 0; f < static_cast<int>(Pointwise::count); ++f)
    if (pointwise_kernel(static_cast<Pointwise>(f), dtype).row)
      functions.push_back(static_cast<Pointwise>(f));
  return functions;
}

float apply(Pointwise function, float x) {
  float y = 0;
  pointwise_kernel(function, DType::f32).row(&y, &x, &x, 1);
  return y;
}

class PointwiseIsa : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    set_isa_cap(GetParam());
    if (std::string_view(isa_name()) != GetParam()) GTEST_SKIP() << "this machine has no " << GetParam();
  }
  void TearDown() override { set_isa_cap(""); }
};
INSTANTIATE_TEST_SUITE_P(Each, PointwiseIsa, testing::Values("scalar", "avx2", "avx512"),
                         [](const auto& isa) { return isa.param; });

TEST_P(PointwiseIsa, NamesSayFunctionInstructionsAndDType) {
  EXPECT_EQ(pointwise_kernel(Pointwise::gelu_tanh, DType::f32).name,
            "pointwise_gelu_tanh_" + std::string(GetParam()) + "_f32");
  EXPECT_EQ(pointwise_kernel(Pointwise::mul, DType::i64).name,
            "pointwise_mul_" + std::string(GetParam()) + "_i64");
  EXPECT_EQ(pointwise_kernel(Pointwise::silu, DType::i32).row, nullptr);
}

TEST_P(PointwiseIsa, AnyLayoutAgreesWithANaiveIndexer) {
  std::mt19937 random(7);
  for (const DType dtype : kAllDTypes) {
    const auto functions = functions_for(dtype);
    for (int round = 0; round < (kSanitized ? 100 : 400); ++round) {
      const Pointwise function = functions[static_cast<size_t>(round) % functions.size()];
      RandomLoop data(random, {dtype, dtype, dtype});
      std::normal_distribution<double> normal(0, dtype_is_floating(dtype) ? 3 : 1000);
      data.for_each_element([&](const auto& at) {
        for (int o = 0; o < 3; ++o) write_element(dtype, at[o], normal(random));
      });
      const auto before = data.memory;
      StridedLoop loop = data.loop;
      loop.collapse();
      run_rows(loop, pointwise_kernel(function, dtype).row);
      data.for_each_element([&](const auto& at) {
        const double x = read_element(dtype, at[1]), y = read_element(dtype, at[2]);
        const double expected = static_cast<double>(reference(function, x, y));
        ASSERT_NEAR(read_element(dtype, at[0]), expected, allowed_error(function, dtype, expected))
            << pointwise_kernel(function, dtype).name << " round " << round << " x " << x << " y " << y;
        write_element(dtype, at[0], 0);
      });
      // Nothing but the output's elements was written.
      auto untouched = before;
      data.for_each_element([&](const auto& at) {
        write_element(dtype, untouched[0].data() + (at[0] - data.memory[0].data()), 0);
      });
      ASSERT_TRUE(data.memory == untouched) << pointwise_kernel(function, dtype).name << " round " << round;
    }
  }
}

TEST_P(PointwiseIsa, EveryLengthAndStartStaysInsideTheRow) {
  for (const DType dtype : kAllDTypes) {
    const int size = size_of(dtype);
    for (const Pointwise function : functions_for(dtype))
      for (int n = 0; n <= 70; ++n) {
        const int start = n % 7;
        std::vector<char> x(static_cast<size_t>((start + n) * size)), y = x, z(x.size() + 64, '?');
        for (int i = 0; i < n; ++i) {
          write_element(dtype, &x[static_cast<size_t>((start + i) * size)], i - 35);
          write_element(dtype, &y[static_cast<size_t>((start + i) * size)], i % 5);
        }
        const size_t offset = static_cast<size_t>(start * size);
        pointwise_kernel(function, dtype).row(z.data() + offset, x.data() + offset, y.data() + offset, n);
        for (int i = 0; i < n; ++i) {
          const double expected = static_cast<double>(reference(function, i - 35, i % 5));
          ASSERT_NEAR(read_element(dtype, &z[offset + static_cast<size_t>(i * size)]), expected,
                      allowed_error(function, dtype, expected))
              << pointwise_kernel(function, dtype).name << " n " << n << " i " << i;
        }
        for (size_t i = 0; i < z.size(); ++i) ASSERT_TRUE(z[i] == '?' || (i >= offset && i < x.size()));
      }
  }
}

TEST_P(PointwiseIsa, StreamingGivesTheSameBitsForEveryLengthAndStart) {
  const Tensor a = randn({200}, 1), b = randn({200}, 2);
  for (int f = 0; f < static_cast<int>(Pointwise::count); ++f) {
    const PointwiseKernel kernel = pointwise_kernel(static_cast<Pointwise>(f), DType::f32);
    for (int64_t start : {0, 1, 7, 16}) {
      for (int64_t n : {0, 1, 5, 16, 31, 150}) {
        std::vector<float> plain(200, -7), streamed(200, -7);
        kernel.row(plain.data() + start, a.data<float>(), b.data<float>(), n);
        kernel.streaming(streamed.data() + start, a.data<float>(), b.data<float>(), n);
        EXPECT_EQ(plain, streamed) << kernel.name << " " << start << " " << n;
      }
    }
  }
}

TEST_P(PointwiseIsa, SpecialValuesTakeTheirLimits) {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  for (const Pointwise f : {Pointwise::relu, Pointwise::silu, Pointwise::gelu_tanh, Pointwise::gelu}) {
    EXPECT_EQ(apply(f, infinity), infinity);
    EXPECT_EQ(apply(f, 1e30f), 1e30f);
    EXPECT_EQ(apply(f, 3e38f), 3e38f);
    EXPECT_EQ(apply(f, -infinity), 0.0f);
    EXPECT_EQ(apply(f, -3e38f), 0.0f);
    EXPECT_EQ(apply(f, 0.0f), 0.0f);
    EXPECT_EQ(apply(f, -0.0f), 0.0f);
    EXPECT_TRUE(std::isnan(apply(f, nan)));
    EXPECT_TRUE(std::isnan(apply(f, -nan)));
    const float tiny = 1e-40f;  // subnormal
    EXPECT_NEAR(apply(f, tiny), f == Pointwise::relu ? tiny : tiny / 2, 1.5e-45f);
  }
}

// Also where the result is 1e-30: a formula that cancels fails here.
TEST_P(PointwiseIsa, ActivationsAreAccurateOverAllExponents) {
  const bool fused = std::string_view(GetParam()) != "scalar";
  for (const Pointwise f : {Pointwise::silu, Pointwise::gelu_tanh, Pointwise::gelu}) {
    double worst = 0, worst_at = 0;
    for (uint32_t bits = 0; bits < 0x7f800000u; bits += 20011)
      for (const float x : {std::bit_cast<float>(bits), -std::bit_cast<float>(bits)}) {
        const double expected = static_cast<double>(reference(f, x, 0));
        if (std::abs(expected) < 1e-30) {
          ASSERT_NEAR(apply(f, x), expected, 1e-30) << x;
          continue;
        }
        const double error = std::abs(static_cast<double>(apply(f, x)) / expected - 1);
        if (error > worst) worst = error, worst_at = static_cast<double>(x);
      }
    // gelu_tanh's exponent is rounded once at 66, and exp magnifies that; so is gelu's where no FMA is there.
    const double allowed = f == Pointwise::silu ? 2e-7 : f == Pointwise::gelu && fused ? 5e-7 : 1.2e-5;
    EXPECT_LT(worst, allowed) << pointwise_kernel(f, DType::f32).name << " at " << worst_at;
  }
}

TEST_P(PointwiseIsa, BitsDoNotDependOnTheThreadCount) {
  const int threads_before = thread_count();
  const int64_t n = 300'001;
  std::vector<float> x(n), one(n), many(n);
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (float& value : x) value = normal(random);
  StridedLoop loop;
  loop.dims = 1;
  loop.operands = 2;
  loop.sizes[0] = n;
  for (int o = 0; o < 2; ++o) loop.operand[o] = {.data = nullptr, .element_size = 4, .strides = {4}};
  loop.operand[1].data = reinterpret_cast<char*>(x.data());
  const auto run = [&](std::vector<float>& out, int threads) {
    set_thread_count(threads);
    loop.operand[0].data = reinterpret_cast<char*>(out.data());
    return run_rows(loop, pointwise_kernel(Pointwise::gelu, DType::f32).row);
  };
  EXPECT_EQ(run(one, 1), 1);
  for (const int threads : {2, 3, 7}) {
    EXPECT_EQ(run(many, threads), threads);
    EXPECT_EQ(std::memcmp(one.data(), many.data(), n * sizeof(float)), 0) << threads;
  }
  loop.sizes[0] = 32768;
  EXPECT_EQ(run(many, 7), 1) << "a small tensor stays on one thread";
  set_thread_count(threads_before);
}

TEST(Pointwise, CallBroadcastsViewsAndNamesItsKernel) {
  const Tensor gate = randn({5, 1, 33}, 1).transpose(0, 2), up = randn({1, 9, 10}, 2).slice(2, 0, 10, 2);
  Tensor out = empty({33, 9, 5});
  Attrs attrs;
  attrs.approximate = GeluApproximate::tanh;
  const Tensor inputs[] = {gate, up};
  const KernelRan ran = run_pointwise({Op::gelu_mul, attrs, inputs, out});
  EXPECT_EQ(ran.name, "pointwise_gelu_tanh_mul_" + std::string(isa_name()) + "_f32");
  EXPECT_EQ(ran.threads, 1);
  for (int64_t i = 0; i < 33; ++i)
    for (int64_t j = 0; j < 9; ++j)
      for (int64_t k = 0; k < 5; ++k) {
        const double x = gate.select(0, i).select(0, 0).select(0, k).item();
        const double y = up.select(0, 0).select(0, j).select(0, k).item();
        const double expected = static_cast<double>(reference(Pointwise::gelu_tanh_mul, x, y));
        ASSERT_NEAR(out.data<float>()[(i * 9 + j) * 5 + k], expected, 1e-6);
      }
}

TEST(Pointwise, CallTakesScalarsAndEmptyTensors) {
  const Attrs attrs;
  const Tensor scalars[] = {full({}, 2.0), full({}, -3.0)}, none[] = {empty({0, 4}), empty({1, 4})};
  Tensor product = empty({}), nothing = empty({0, 4});
  run_pointwise({Op::mul, attrs, scalars, product});
  EXPECT_EQ(product.item(), -6.0);
  EXPECT_EQ(run_pointwise({Op::add, attrs, none, nothing}).threads, 1);
}

TEST(Pointwise, CallRefusesAnActivationOfIntegers) {
  const Attrs attrs;
  const Tensor inputs[] = {zeros({3}, {.dtype = DType::i32})};
  Tensor out = zeros({3}, {.dtype = DType::i32});
  EXPECT_THROW(run_pointwise({Op::silu, attrs, inputs, out}), Error);
}

}  // namespace
}  // namespace epilogue::cpu
