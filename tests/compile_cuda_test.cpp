// compile() on a GPU: kernels by count, programs of every form, replay. Skipped with the reason where there
// is none.
#include <chrono>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "close.h"
#include "devices.h"
#include "epilogue/compile.h"
#include "epilogue/device.h"
#include "epilogue/nn.h"
#include "traced.h"

namespace epilogue {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

class CompileCuda : public ::testing::Test {
 protected:
  void SetUp() override {
    if (device_count(DeviceType::cuda) == 0) GTEST_SKIP() << why_no_devices(DeviceType::cuda);
  }

  static void build(const CompiledFunction& f, const Tensor& x) {
    f(x);
    f.wait_ready();
    f(x);  // stacks weights and times products, once
    f(x);
    synchronize(kCuda);
    ASSERT_EQ(f.stats().failed_builds, 0) << f.stats().failures.front();
  }

  static std::vector<std::string> kernels_of(const std::function<void()>& call) {
    const auto waited = [&] {
      call();
      synchronize(kCuda);
    };
    return epilogue::kernels_of(waited, trace::EventKind::kernel);
  }
};

nn::MlpOptions options_of(DType dtype, Act act = Act::gelu_tanh, bool bias = false) {
  return {.act = act, .bias = bias, .tensor = {dtype, kCuda}};
}

TEST_F(CompileCuda, LinearIsOneKernelAndLinearGeluLinearTwo) {
  const nn::Linear linear(256, 512, {.tensor = {DType::bf16, kCuda}});
  const Tensor x = randn({128, 256}, 1, {DType::bf16, kCuda});
  const CompiledFunction one = compile([&](const Tensor& t) { return linear.forward(t); });
  build(one, x);
  EXPECT_EQ(kernels_of([&] { one(x); }).size(), 1u);
  const nn::Mlp mlp(256, 512, options_of(DType::bf16, Act::gelu_tanh, true));
  const CompiledFunction two = compile([&](const Tensor& t) { return mlp.forward(t); });
  build(two, x);
  EXPECT_EQ(kernels_of([&] { two(x); }).size(), 2u);
  EXPECT_LT(max_error(two(x), mlp.forward(x)), 0.05);
}

TEST_F(CompileCuda, GatedMlpIsFourKernelsAndThreeWhenGateAndUpAreMerged) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    const nn::GatedMlp layer(256, 512, options_of(dtype));
    const Tensor x = randn({4, 64, 256}, 1, {dtype, kCuda}), expected = layer.forward(x);
    const auto forward = [&](const Tensor& t) { return layer.forward(t); };
    const CompiledFunction four = compile(forward, {.disable = {"gate_up_merge", "gated_fusion"}});
    const CompiledFunction three = compile(forward, {.disable = {"gated_fusion"}});
    build(four, x);
    build(three, x);
    const auto names = kernels_of([&] { four(x); });
    // In f32 cuBLASLt may split the sum, which takes a kernel more.
    const bool counted = dtype != DType::f32;
    if (counted) {
      EXPECT_EQ(names.size(), 4u);
    }
    EXPECT_THAT(names, Contains("ep_fused_gelu_mul_0"));
    const size_t merged = kernels_of([&] { three(x); }).size();
    if (counted) {
      EXPECT_EQ(merged, 3u);
    }
    const double allowed = dtype == DType::f32 ? 1e-4 : dtype == DType::f16 ? 0.01 : 0.06;
    EXPECT_LT(max_error(four(x), expected), allowed);
    EXPECT_LT(max_error(three(x), expected), allowed);
  }
}

TEST_F(CompileCuda, ProgramsOfEveryLayoutGiveWhatEagerGives) {
  const auto function = [](std::span<const Tensor> in) {
    const Tensor sum = add(in[0], in[1]);
    return std::vector{mul(silu(sum), in[0]), relu(sum)};
  };
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
    const TensorOptions options{dtype, kCuda};
    const Tensor wide = randn({33, 48}, 1, options), odd = randn({7, 13}, 2, options);
    const std::vector<std::vector<Tensor>> cases{
        {wide, randn({33, 48}, 3, options)},                              // one row of vectors
        {wide, randn({48}, 3, options)},                                  // a row for all
        {wide, randn({33, 1}, 3, options)},                               // a column for all
        {wide.slice(1, 0, 24), wide.slice(1, 24, 48)},                    // halves of rows
        {odd, randn({7, 1}, 3, options)},                                 // rows that end within a vector
        {wide.t(), randn({33}, 3, options)},                              // transposed
        {wide.view({-1}).slice(0, 1, 1000), randn({999}, 3, options)},    // off the boundary of vectors
        {randn({3, 1, 5, 7}, 4, options), randn({2, 1, 7}, 5, options)},  // broadcast both ways
        {randn({1 << 20}, 4, options), randn({1}, 5, options)},
    };
    for (const std::vector<Tensor>& inputs : cases) {
      const CompiledFunction f = compile(function);
      f(inputs);
      f.wait_ready();
      ASSERT_EQ(f.stats().failed_builds, 0) << f.stats().failures.front();
      const std::vector<Tensor> found = f(inputs), expected = function(inputs);
      const double allowed = dtype == DType::bf16 ? 0.13 : dtype == DType::f16 ? 0.02 : 1e-5;
      for (size_t o = 0; o < 2; ++o)
        EXPECT_LT(max_error(found[o], expected[o]), allowed)
            << dtype_name(dtype) << " " << inputs[0].sizes().to_string() << " "
            << inputs[1].sizes().to_string();
    }
  }
}

TEST_F(CompileCuda, SixtyFourLengthsAreNoRecompile) {
  const nn::GatedMlp layer(64, 128, options_of(DType::bf16));
  const CompiledFunction f = compile([&](const Tensor& x) { return layer.forward(x); });
  build(f, randn({3, 64}, 1, {DType::bf16, kCuda}));
  for (int64_t i = 0; i < 64; ++i) {
    const Tensor x = randn({1 + (i * 37) % 500, 64}, static_cast<uint64_t>(i), {DType::bf16, kCuda});
    EXPECT_LT(max_error(f(x), layer.forward(x)), 0.06);
  }
  EXPECT_EQ(f.stats().recompiles, 0);
  EXPECT_LE(f.stats().eager_calls, 1);
}

TEST_F(CompileCuda, ReplayGivesTheSameForNewContentsAndNewWeights) {
  nn::GatedMlp layer(64, 128, options_of(DType::f32));
  const CompiledFunction f = compile([&](const Tensor& x) { return layer.forward(x); }, {.replay = true});
  build(f, randn({8, 64}, 1, {DType::f32, kCuda}));
  for (uint64_t seed = 2; seed < 6; ++seed) {
    const Tensor x = randn({8, 64}, seed, {DType::f32, kCuda});
    const Tensor first = f(x), expected = layer.forward(x);
    EXPECT_LT(max_error(first, expected), 1e-4);
    f(randn({8, 64}, seed + 100, {DType::f32, kCuda}));
    EXPECT_LT(max_error(first, expected), 1e-4) << "a later call wrote into an earlier result";
    layer.gate_proj.weight.copy_(randn({128, 64}, seed, {DType::f32, kCuda}));
    EXPECT_LT(max_error(f(x), layer.forward(x)), 1e-2);
  }
}

TEST_F(CompileCuda, TheKernelIsReadySoon) {
  const auto ready_us = [] {
    const nn::GatedMlp layer(64, 128, options_of(DType::bf16, Act::silu));
    const CompiledFunction f = compile([&](const Tensor& x) { return layer.forward(x); });
    f(randn({8, 64}, 1, {DType::bf16, kCuda}));
    f.wait_ready();
    return f.stats().last_build_us;
  };
  const double first = ready_us();
  RecordProperty("first_build_us", std::to_string(first));
  EXPECT_LT(first, 2e6);
}

}  // namespace
}  // namespace epilogue
