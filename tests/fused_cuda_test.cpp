// Mode fused on a GPU: random problems against f64, the same bits again, no memory beyond the hidden tensor.
#include <cmath>
#include <limits>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "close.h"
#include "devices.h"
#include "epilogue/memory.h"
#include "epilogue/nn.h"
#include "epilogue/ops.h"
#include "trace/kernel_name.h"
#include "traced.h"

namespace epilogue {
namespace {

class FusedCuda : public OnCuda {};

// What the next result of these sizes is written over: numbers that spoil every sum they are left in.
void poison(const Dims& sizes, DType dtype) {
  full(sizes, std::numeric_limits<double>::quiet_NaN(), {dtype, kCuda});
  synchronize(kCuda);
}

nn::GatedMlp in_f64(nn::GatedMlp& layer, const nn::MlpOptions& options, int64_t dim, int64_t hidden) {
  nn::MlpOptions exact = options;
  exact.mode = nn::Mode::eager;
  exact.tensor.dtype = DType::f64;
  nn::GatedMlp reference(dim, hidden, exact);
  const auto from = layer.named_parameters(), to = reference.named_parameters();
  for (size_t i = 0; i < from.size(); ++i) to[i].second->copy_(from[i].second->to(DType::f64));
  return reference;
}

// Sizes lie around powers of two, so that all the kernels' forms are met, and are odd as often as not.
TEST_F(FusedCuda, ThreeHundredRandomProblemsAreRightAndRepeatTheirBits) {
  constexpr Act kActivations[] = {Act::gelu_tanh, Act::gelu, Act::silu, Act::relu, Act::none};
  std::mt19937 random(7);
  const auto size = [&](int most) {
    const double exponent = std::uniform_real_distribution<double>(0, std::log2(most))(random);
    return static_cast<int64_t>(std::exp2(exponent));
  };
  for (int i = 0; i < 300; ++i) {
    const int64_t m = i % 50 == 0 ? 20000 - static_cast<int64_t>(random() % 500) : size(4000);
    // One in four has sizes that the fused kernels refuse.
    const int unit = random() % 4 == 0 ? 1 : 8;
    const int64_t dim = unit * size(768 / unit), hidden = unit * size(1024 / unit);
    const nn::MlpOptions options{.act = kActivations[random() % 5],
                                 .bias = random() % 2 == 0,
                                 .mode = nn::Mode::fused,
                                 .tensor = {random() % 2 == 0 ? DType::bf16 : DType::f16, kCuda},
                                 .seed = random()};
    nn::GatedMlp layer(dim, hidden, options);
    const nn::GatedMlp reference = in_f64(layer, options, dim, hidden);
    const Tensor wide = randn({m, dim + 8}, random(), options.tensor);
    const Tensor x = i % 3 == 0 ? wide.slice(1, 8, dim + 8) : wide.slice(1, 0, dim).contiguous();
    const Tensor expected = reference.forward(x.to(DType::f64));
    nn::GatedMlp eager = layer;
    eager.mode = nn::Mode::eager;
    // Twice what eager is off by, and a rounding of the result, since eager may be lucky in a small problem.
    const double rounding = options.tensor.dtype == DType::bf16 ? 1.0 / 256 : 1.0 / 2048;
    const double largest = max_error(expected, zeros(expected.sizes(), {DType::f64, kCuda}));
    const double allowed = 2 * max_error(eager.forward(x), expected) + rounding * largest;
    Tensor y;
    for (int call = 0; call < 3; ++call) {
      poison({m, hidden}, options.tensor.dtype);
      poison({m, dim}, options.tensor.dtype);
      y = layer.forward(x);
      ASSERT_LE(max_error(y, expected), allowed)
          << i << ": " << m << " " << dim << " " << hidden << " " << act_name(options.act) << " "
          << dtype_name(options.tensor.dtype) << (options.bias ? " with biases" : "");
    }
    // The kernels are chosen by timing during the first calls; from then on the bits are the same.
    for (int call = 0; call < 60; ++call) layer.forward(x);
    y = layer.forward(x);
    ASSERT_TRUE(same_bits(layer.forward(x), y)) << i << ": " << m << " " << dim << " " << hidden;
  }
}

// Sizes of which one kernel may be quicker than two. Its blocks wait for each other, so two threads call at
// once.
TEST_F(FusedCuda, AThousandRowsAreRightOnTwoStreamsAtOnce) {
  const TensorOptions tensor{DType::bf16, kCuda};
  const nn::MlpOptions options{.act = Act::silu, .bias = true, .mode = nn::Mode::fused, .tensor = tensor};
  for (const int64_t m : {1024, 2040}) {
    nn::GatedMlp layer(1024, 4096, options);
    const nn::GatedMlp reference = in_f64(layer, options, 1024, 4096);
    const Tensor x = randn({m, 1024}, 3, tensor);
    const Tensor expected = reference.forward(x.to(DType::f64));
    nn::GatedMlp eager = layer;
    eager.mode = nn::Mode::eager;
    const double allowed = 2 * max_error(eager.forward(x), expected) + 1.0 / 256;
    for (int call = 0; call < 100; ++call) layer.forward(x);  // until the ways are chosen
    const Tensor y = layer.forward(x);
    EXPECT_LE(max_error(y, expected), allowed) << m;
    Tensor replayed;
    const Graph graph = Graph::capture(kCuda, [&] { replayed = layer.forward(x); });
    for (int replay = 0; replay < 3; ++replay) {
      const Stream stream(kCuda);  // of the last replay; the others' is the default one
      if (replay == 2) {
        const StreamGuard guard(stream);
        graph.replay();
        stream.synchronize();
      } else {
        graph.replay();
      }
      synchronize(kCuda);
      EXPECT_TRUE(same_bits(replayed, y)) << m << " " << replay;
    }
    bool same[2] = {false, false};
    const auto run = [&](bool* all_same) {
      const Stream stream(kCuda);
      const StreamGuard guard(stream);
      bool every = true;
      for (int call = 0; call < 200; ++call) {
        const Tensor again = layer.forward(x);
        if (call % 20 == 19) every = every && same_bits(again, y);
      }
      *all_same = every;
    };
    std::thread a(run, &same[0]), b(run, &same[1]);
    a.join();
    b.join();
    EXPECT_TRUE(same[0] && same[1]) << m;
  }
}

TEST_F(FusedCuda, NeedsTheHiddenTensorAndTheResultAlone) {
  const TensorOptions tensor{DType::bf16, kCuda};
  for (const int64_t m : {64, 1024, 8192}) {
    const nn::GatedMlp layer(1024, 4096, {.mode = nn::Mode::fused, .tensor = tensor});
    const Tensor x = randn({m, 1024}, 1, tensor);
    constexpr int64_t kHiddenAndResult = (4096 + 1024) * 2;
    int64_t needed = 0;
    for (int call = 0; call < 300; ++call) {  // the first ones time kernels, for which they take memory
      synchronize(kCuda);
      const int64_t before = memory_stats(kCuda).allocated;
      reset_peak_memory(kCuda);
      const Tensor y = layer.forward(x);
      needed = memory_stats(kCuda).peak_allocated - before;
      if (needed <= m * kHiddenAndResult) break;
    }
    EXPECT_LE(needed, m * kHiddenAndResult) << m;
  }
}

// kernel_name_ours_cuda.cpp reads the kernels' template arguments by their order.
TEST_F(FusedCuda, NamesOfItsKernelsAreExplained) {
  const TensorOptions tensor{DType::bf16, kCuda};
  for (const nn::Mode mode : {nn::Mode::tuned, nn::Mode::fused})
    for (const int64_t m : {1, 5, 64, 150, 300, 1024}) {
      const nn::GatedMlp layer(1024, 4096, {.mode = mode, .tensor = tensor});
      const Tensor x = randn({m, 1024}, 1, tensor);
      layer.forward(x);
      const auto names = kernels_of(
          [&] {
            layer.forward(x);
            synchronize(kCuda);
          },
          trace::EventKind::kernel);
      int ours = 0;
      for (const std::string& name : names) {
        if (name.find("epilogue::cuda::") == name.npos) continue;
        ++ours;
        const trace::KernelName kernel = trace::explain_kernel(name);
        EXPECT_EQ(kernel.value(trace::NameField::a), "bf16") << name;
        const std::string& tile = kernel.value(trace::NameField::tile);
        const std::string& function = kernel.value(trace::NameField::function);
        if (kernel.value(trace::NameField::op) == "pointwise") continue;
        EXPECT_EQ(kernel.value(trace::NameField::op), "GEMM") << name;
        const bool by_tiles = function == "tile_gemm" || function == "mlp_gemm";
        if (by_tiles)
          EXPECT_TRUE(tile.starts_with("128x")) << name;
        else if (function == "swap_gemm")
          EXPECT_TRUE(tile.ends_with("x128x64") || tile.ends_with("x256x64")) << name;
        else
          EXPECT_EQ(tile.empty(), function != "skinny_gemm") << name;
        EXPECT_EQ(kernel.value(trace::NameField::schedule).empty(), !by_tiles && function != "swap_gemm")
            << name;
      }
      EXPECT_GE(ours, 1) << m;
    }
}

}  // namespace
}  // namespace epilogue
