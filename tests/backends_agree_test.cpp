// Every backend against float64 on the CPU: pointwise ops, copies and views of random shapes, strides and
// alignments, and the modes of the gated MLP.
#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "close.h"
#include "devices.h"
#include "epilogue/nn.h"
#include "epilogue/ops.h"
#include "sanitized.h"

namespace epilogue {
namespace {

class BackendsAgree : public OnDevice {};
INSTANTIATE_ON_EVERY_DEVICE(BackendsAgree);

constexpr DType kFloating[] = {DType::f32, DType::bf16, DType::f16, DType::f64};
constexpr DType kEvery[] = {DType::f32, DType::bf16, DType::f16, DType::f64, DType::i32, DType::i64};

int64_t pick(std::mt19937& random, int64_t from, int64_t to) {
  return std::uniform_int_distribution<int64_t>(from, to)(random);
}

Dims random_sizes(std::mt19937& random) {
  Dims sizes;
  for (int64_t dims = pick(random, 0, 4); dims > 0; --dims) {
    constexpr int64_t kSizes[] = {1, 2, 3, 7, 8, 16, 33, 64, 100};
    sizes.push_back(kSizes[pick(random, 0, sizes.empty() ? 8 : 5)]);
  }
  return sizes;
}

// A tensor of `sizes` (or one that broadcasts to them) whose memory is contiguous, sliced with a step,
// shifted by an element, transposed or expanded.
Tensor random_view(std::mt19937& random, Dims sizes, DType dtype, Device device, bool may_broadcast) {
  if (may_broadcast && sizes.size() > 0 && pick(random, 0, 3) == 0)
    sizes[static_cast<int>(pick(random, 0, sizes.size() - 1))] = 1;
  const auto seed = static_cast<uint64_t>(pick(random, 1, 1 << 30));
  const TensorOptions options{dtype_is_floating(dtype) ? dtype : DType::f32, device};
  const auto make = [&](const Dims& of) { return randn(of, seed, options).to(dtype); };
  if (sizes.empty()) return make(sizes);
  const int last = sizes.size() - 1;
  Dims larger = sizes;
  switch (pick(random, 0, 4)) {
    case 1:
      larger[last] = 2 * sizes[last];
      return make(larger).slice(last, 0, 2 * sizes[last], 2);
    case 2:
      larger[last] = sizes[last] + 1;
      return make(larger).slice(last, 1, sizes[last] + 1);
    case 3: {
      if (last == 0) break;
      std::swap(larger[0], larger[last]);
      return make(larger).transpose(0, last);
    }
    case 4:  // one half of a stacked tensor
      larger[last] = 2 * sizes[last];
      return make(larger).slice(last, sizes[last], 2 * sizes[last]);
    default:
      break;
  }
  return make(sizes);
}

double unit(DType dtype) {
  return dtype == DType::bf16  ? 0x1p-8
         : dtype == DType::f16 ? 0x1p-11
         : dtype == DType::f32 ? 0x1p-20
                               : 0x1p-40;
}

// The same numbers in float64 on the CPU.
Tensor wide(const Tensor& tensor) { return tensor.to(Device{}).to(DType::f64); }

double worst_relative(const Tensor& found, const Tensor& expected) {
  const Tensor a = wide(found).contiguous(), b = expected.contiguous();
  if (a.sizes() != b.sizes()) return std::numeric_limits<double>::infinity();
  double worst = 0;
  for (int64_t i = 0; i < a.numel(); ++i) {
    const double x = a.data<double>()[i], y = b.data<double>()[i];
    const double error = std::abs(x - y) / (std::abs(y) + 1e-3);
    worst = std::max(worst, std::isnan(error) ? std::numeric_limits<double>::infinity() : error);
  }
  return worst;
}

TEST_P(BackendsAgree, PointwiseOpsOfAnyLayoutMatchFloat64) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    const DType dtype = kFloating[round % 4];
    const Dims sizes = random_sizes(random);
    const Tensor a = random_view(random, sizes, dtype, GetParam(), false);
    const Tensor b = random_view(random, sizes, dtype, GetParam(), true);
    const Tensor a64 = wide(a), b64 = wide(b);
    const double bound = 2 * unit(dtype);
    const auto tanh = GeluApproximate::tanh, none = GeluApproximate::none;
    SCOPED_TRACE(std::string(dtype_name(dtype)) + " " + sizes.to_string() + " round " +
                 std::to_string(round));
    EXPECT_LE(worst_relative(add(a, b), add(a64, b64)), bound);
    EXPECT_LE(worst_relative(mul(a, b), mul(a64, b64)), bound);
    EXPECT_LE(worst_relative(relu(a), relu(a64)), bound);
    EXPECT_LE(worst_relative(silu(a), silu(a64)), bound);
    EXPECT_LE(worst_relative(gelu(a, tanh), gelu(a64, tanh)), bound);
    EXPECT_LE(worst_relative(gelu(a, none), gelu(a64, none)), bound);
    EXPECT_LE(worst_relative(silu_mul(a, b), silu_mul(a64, b64)), bound);
    EXPECT_LE(worst_relative(gelu_mul(a, b, tanh), gelu_mul(a64, b64, tanh)), bound);
    EXPECT_LE(worst_relative(gelu_mul(a, b, none), gelu_mul(a64, b64, none)), bound);
    if (HasFailure()) return;
  }
}

TEST_P(BackendsAgree, IntegersAddAndMultiply) {
  for (const DType dtype : {DType::i32, DType::i64}) {
    const Tensor a = arange(1000, {dtype, GetParam()}), b = full({1000}, -3, {dtype, GetParam()});
    EXPECT_EQ(max_error(add(a, b), add(wide(a), wide(b))), 0);
    EXPECT_EQ(max_error(mul(a, b), mul(wide(a), wide(b))), 0);
  }
}

TEST_P(BackendsAgree, CopiesBetweenEveryPairOfDTypesAndLayoutsKeepTheNumbers) {
  std::mt19937 random(9);
  for (int round = 0; round < 216; ++round) {
    const DType from = kEvery[round % 6], to = kEvery[round / 6 % 6];
    const Dims sizes = random_sizes(random);
    const Tensor source = random_view(random, sizes, from, GetParam(), false);
    const Tensor host = source.to(Device{});
    SCOPED_TRACE(std::string(dtype_name(from)) + " to " + dtype_name(to) + " " + sizes.to_string());
    EXPECT_EQ(max_error(source.to(to), host.to(to)), 0);
    EXPECT_EQ(max_error(source.contiguous(), host), 0);
    Tensor destination = random_view(random, sizes, to, GetParam(), false);
    destination.copy_(source);
    EXPECT_EQ(max_error(destination, host.to(to)), 0);
    if (HasFailure()) return;
  }
}

TEST_P(BackendsAgree, LargeTransposeMovesEveryElement) {
  const Tensor numbers = arange(301 * 517, {DType::f32, GetParam()}).view({301, 517});
  EXPECT_EQ(max_error(numbers.t().contiguous(), numbers.to(Device{}).t()), 0);
}

TEST_P(BackendsAgree, FillWritesItsViewAndNothingElse) {
  for (const DType dtype : kEvery) {
    Tensor all = zeros({9, 11}, {dtype, GetParam()});
    Tensor inner = all.slice(0, 2, 7).slice(1, 1, 10, 3);
    inner.copy_(full({5, 3}, 7, {dtype, GetParam()}));
    double sum = 0;
    const Tensor host = wide(all).contiguous();
    for (int64_t i = 0; i < host.numel(); ++i) sum += host.data<double>()[i];
    EXPECT_EQ(sum, 7 * 15);
  }
}

TEST_P(BackendsAgree, SpecialValuesTakeTheirLimits) {
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::nan("");
  for (const DType dtype : kFloating) {
    const auto at = [&](double x, Act act) {
      return activation(full({5}, x, {dtype, GetParam()}), act).select(0, 3).item();
    };
    for (const Act act : {Act::relu, Act::silu, Act::gelu_tanh, Act::gelu}) {
      EXPECT_EQ(at(infinity, act), infinity);
      EXPECT_EQ(at(-infinity, act), 0);
      EXPECT_EQ(at(0, act), 0);
      EXPECT_TRUE(std::isnan(at(nan, act)));
      EXPECT_EQ(at(-3e4, act), 0);
      EXPECT_EQ(at(30000, act), full({}, 30000, {dtype}).item());
    }
  }
}

TEST_P(BackendsAgree, ModesOfTheGatedMlpMatchFloat64OnRandomProblems) {
  std::mt19937 random(17);
  constexpr int64_t kRows[] = {1, 2, 3, 17, 64, 100, 129, 257}, kWidths[] = {8, 24, 33, 64, 96, 130};
  for (int round = 0; round < (kSanitized ? 60 : 200); ++round) {
    const DType dtype = kFloating[round % 3];
    const Act act = static_cast<Act>(round % 5);
    const int64_t m = kRows[pick(random, 0, 7)], dim = kWidths[pick(random, 0, 5)],
                  hidden = kWidths[pick(random, 0, 5)];
    nn::GatedMlp layer(dim, hidden,
                       {.act = act, .bias = round % 2 == 0, .tensor = {dtype, GetParam()}, .seed = 3});
    Tensor x = randn({m, 2 * dim}, static_cast<uint64_t>(round), {dtype, GetParam()});
    x = round % 3 == 0   ? x.slice(1, 0, 2 * dim, 2)
        : round % 3 == 1 ? x.slice(1, dim, 2 * dim)
                         : x.slice(1, 0, dim).t().contiguous().t();
    nn::GatedMlp reference(dim, hidden, {.act = act, .bias = round % 2 == 0, .tensor = {DType::f64}});
    auto to = reference.named_parameters(), from = layer.named_parameters();
    for (size_t i = 0; i < to.size(); ++i) to[i].second->copy_(wide(*from[i].second));
    const Tensor expected = reference.forward(wide(x));
    const std::string problem = Dims{m, dim, hidden}.to_string();
    SCOPED_TRACE(std::string(act_name(act)) + " " + dtype_name(dtype) + " " + problem);
    for (const nn::Mode mode : nn::available_modes()) {
      layer.mode = mode;
      EXPECT_LE(max_error(layer.forward(x), expected), 16 * std::max(unit(dtype), 1e-6))
          << nn::mode_name(mode);
    }
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace epilogue
