// Random functions of our ops, compiled and eager: every pass alone, and all together.
#include <random>

#include <gtest/gtest.h>

#include "close.h"
#include "epilogue/compile.h"
#include "epilogue/device.h"
#include "epilogue/ops.h"
#include "sanitized.h"

namespace epilogue {
namespace {

// A list of choices that makes the same function at every call, for any sizes of its inputs.
class RandomFunction {
 public:
  RandomFunction(uint32_t seed, Device device) : random_(seed), device_(device) {
    constexpr DType kTypes[] = {DType::f32, DType::f32, DType::bf16, DType::f16, DType::f64};
    dtype_ = kTypes[pick(5)];
    width_ = 1 + pick(20);
    weights_ = 1 + pick(3);
    for (int64_t i = 0; i < weights_; ++i)
      weight_.push_back(randn({width_, width_}, seed + static_cast<uint64_t>(i), options()).set_parameter());
    row_ = randn({width_}, seed + 9, options()).set_parameter();
    const int64_t length = 3 + pick(10);
    for (int64_t i = 0; i < length; ++i) choices_.push_back({pick(15), pick(100), pick(100)});
    outputs_ = 1 + pick(3);
    for (uint64_t i = 0; i < 3; ++i)
      small_.push_back(
          mul(randn({width_, width_}, seed + 20 + i, options()), full({1}, 0.2, options())).set_parameter());
  }

  std::vector<Tensor> inputs(uint32_t shape_seed) const {
    std::mt19937 sizes(shape_seed);
    const auto size = [&] { return static_cast<int64_t>(sizes() % 10 == 0 ? 0 : 1 + sizes() % 9); };
    const int64_t a = size(), b = size();
    return {randn({a, b, width_}, shape_seed, options()), randn({a, b, width_}, shape_seed + 1, options()),
            randn({b, 1}, shape_seed + 2, options())};
  }

  std::vector<Tensor> operator()(std::span<const Tensor> in) const {
    std::vector<Tensor> made(in.begin(), in.begin() + 2);
    for (const auto& [kind, first, second] : choices_)
      made.push_back(apply(kind, made, first, second, in[2]));
    std::vector<Tensor> results;
    for (int64_t o = 0; o < outputs_; ++o) results.push_back(made[made.size() - 1 - static_cast<size_t>(o)]);
    return results;
  }

  DType dtype() const { return dtype_; }
  TensorOptions options() const { return {dtype_, device_}; }

 private:
  struct Choice {
    int64_t kind, first, second;
  };

  int64_t pick(int64_t count) { return static_cast<int64_t>(random_() % static_cast<uint32_t>(count)); }

  // Values keep the shape [a, b, width], so that any two fit.
  Tensor apply(int64_t kind, const std::vector<Tensor>& made, int64_t first, int64_t second,
               const Tensor& column) const {
    const Tensor& x = made[static_cast<size_t>(first) % made.size()];
    const Tensor& y = made[static_cast<size_t>(second) % made.size()];
    const Tensor half = full({1}, 0.5, options());
    switch (kind) {
      case 0:
        return mul(add(x, y), half);
      case 1:
        return mul(mul(x, y), half);
      case 2:
        return relu(x);
      case 3:
        return silu(x);
      case 4:
        return gelu(x, second % 2 ? GeluApproximate::tanh : GeluApproximate::none);
      case 5:
        return mul(gelu_mul(x, y), half);
      case 6:
        return mul(silu_mul(x, y), half);
      case 7:  // a layer, scaled so that values stay small
        return mul(linear(x, weight_[static_cast<size_t>(second % weights_)], second % 3 ? Tensor{} : row_),
                   full({1}, 0.2, options()));
      case 8:
        return add(matmul(x, weight_[0]), row_);
      case 9:
        return add(x, column);
      case 10:
        return mul(x, row_);
      case 11:  // there and back
        return x.transpose(0, 1).contiguous().transpose(0, 1);
      case 12:
        return relu(x.transpose(1, 2)).transpose(1, 2);
      case 13: {  // a gated MLP, with biases or without, with its last product or without
        const Tensor bias = second % 3 ? Tensor{} : row_;
        const Tensor gate = linear(x, small_[0], bias), up = linear(x, small_[1], bias);
        const Tensor gated = second % 2 ? mul(silu(gate), up) : mul(up, gelu(gate));
        return second % 5 ? linear(mul(gated, half), small_[2]) : linear(gated, small_[2], bias);
      }
      default: {
        const DType between = dtype_ == DType::f32 ? DType::bf16 : DType::f32;
        return add(x.to(between).to(dtype_), y.slice(2, 0, 1));
      }
    }
  }

  std::mt19937 random_;
  Device device_;
  DType dtype_ = DType::f32;
  int64_t width_ = 1, weights_ = 1, outputs_ = 1;
  std::vector<Tensor> weight_, small_;
  Tensor row_;
  std::vector<Choice> choices_;
};

// Fused 16-bit functions round less often than eager ones, so they differ by roundings of what passes
// through.
double allowed(DType dtype, double largest) {
  const double unit = dtype == DType::bf16 ? 1.0 / 128 : dtype == DType::f16 ? 1.0 / 1024 : 2e-6;
  return (dtype == DType::f64 ? 1e-12 : 12 * unit) * (1 + largest);
}

double largest_of(const Tensor& x) { return max_error(x, zeros(x.sizes(), {x.dtype(), x.device()})); }

void expect_agreement(const RandomFunction& function, const CompileOptions& options, uint32_t seed) {
  const CompiledFunction f = compile([&](std::span<const Tensor> in) { return function(in); }, options);
  for (uint32_t shape = 0; shape < 2; ++shape) {
    const std::vector<Tensor> inputs = function.inputs(seed * 2 + shape);
    const std::vector<Tensor> expected = function(inputs);
    f(inputs);
    f.wait_ready();
    const std::vector<Tensor> found = f(inputs);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t o = 0; o < found.size(); ++o) {
      ASSERT_EQ(found[o].sizes(), expected[o].sizes());
      ASSERT_EQ(found[o].dtype(), expected[o].dtype());
      ASSERT_LE(max_error(found[o], expected[o]), allowed(function.dtype(), largest_of(expected[o])))
          << "seed " << seed << ", output " << o << ", " << dtype_name(function.dtype()) << "\n"
          << f.explain(inputs);
    }
  }
  EXPECT_EQ(f.stats().failed_builds, 0) << f.stats().failures.front();
}

class RandomGraphs : public ::testing::TestWithParam<std::tuple<DeviceType, std::string>> {};

// Each pass gets its own 500 functions, so that together the seeds go far; on a GPU, where kernels are
// compiled, a pass alone gets 100, and under a sanitizer, which finds what it finds in few, all get 60.
TEST_P(RandomGraphs, AgreeWithEager) {
  const auto& [type, only] = GetParam();
  if (device_count(type) == 0) GTEST_SKIP() << why_no_devices(type);
  CompileOptions options;
  options.enable = {"gate_up_merge"};
  if (only == "gated_fusion") options.enable.push_back(only);
  uint32_t begin = 0;
  if (only != "all")
    for (const std::string& pass : compile_passes()) {
      ++begin;
      if (pass != only) options.disable.push_back(pass);
    }
  const uint32_t count = kSanitized ? 60 : type == DeviceType::cpu || only == "all" ? 500 : 100;
  for (uint32_t seed = begin * 1000; seed < begin * 1000 + count; ++seed) {
    expect_agreement(RandomFunction(seed, {type, 0}), options, seed);
    if (HasFatalFailure()) return;
  }
}

std::vector<std::string> each_pass_and_all() {
  std::vector<std::string> names = compile_passes();
  names.emplace_back("all");
  return names;
}

INSTANTIATE_TEST_SUITE_P(Each, RandomGraphs,
                         ::testing::Combine(::testing::Values(DeviceType::cpu, DeviceType::cuda),
                                            ::testing::ValuesIn(each_pass_and_all())),
                         [](const auto& parameters) {
                           return (std::get<0>(parameters.param) == DeviceType::cpu ? "cpu_" : "cuda_") +
                                  std::get<1>(parameters.param);
                         });

}  // namespace
}  // namespace epilogue
