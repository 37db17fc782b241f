// How many kernels a forward takes in each mode, as the README's table has it.
#include "epilogue/compile.h"
#include "simulated_cuda/simulated_test.h"

namespace epilogue {
namespace {

class SimulatedModes : public SimulatedCuda {
 protected:
  size_t count(nn::Mode mode, Act act, int64_t m = 8192) {
    const nn::GatedMlp mlp(128, 3072, {.act = act, .mode = mode, .tensor = {DType::bf16, kCuda}});
    const Tensor x = rows(m, 128);
    mlp.forward(x);
    if (mode == nn::Mode::compiled) mlp.compiled().wait_ready();
    return settled_call(mlp, x).size();
  }
};

TEST_F(SimulatedModes, OnHopperAreFiveTwoFourAndTwoKernels) {
  for (const Act act : {Act::gelu_tanh, Act::gelu, Act::silu}) {
    EXPECT_EQ(count(nn::Mode::eager, act), 5U) << act_name(act);
    EXPECT_EQ(count(nn::Mode::compiled, act), 2U) << act_name(act);
    EXPECT_EQ(count(nn::Mode::tuned, act), 4U) << act_name(act);
    EXPECT_EQ(count(nn::Mode::fused, act), 2U) << act_name(act);
  }
  EXPECT_EQ(count(nn::Mode::tuned, Act::relu), 5U);  // which no kernel joins with mul
  EXPECT_EQ(count(nn::Mode::fused, Act::relu), 2U);
}

TEST_F(SimulatedModes, BeforeHopperFusedRunsAsTuned) {
  device_->major = 8;
  EXPECT_EQ(count(nn::Mode::eager, Act::silu), 5U);
  EXPECT_EQ(count(nn::Mode::fused, Act::silu), 4U);
}

TEST_F(SimulatedModes, SixtyFourBatchSizesAreNoRecompile) {
  const nn::GatedMlp mlp(128, 512, {.mode = nn::Mode::compiled, .tensor = {DType::bf16, kCuda}});
  mlp.forward(rows(66, 128));
  mlp.compiled().wait_ready();
  for (int64_t m = 2; m <= 65; ++m) mlp.forward(rows(m, 128));
  const CompileStats stats = mlp.compiled().stats();
  EXPECT_EQ(stats.builds, 1);
  EXPECT_EQ(stats.eager_calls, 1);  // the first
}

}  // namespace
}  // namespace epilogue
