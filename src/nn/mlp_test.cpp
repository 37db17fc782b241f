// What a layer refuses, whichever way it runs.
#include <gtest/gtest.h>

#include "epilogue/error.h"
#include "epilogue/nn.h"
#include "error_of.h"

namespace epilogue::nn {
namespace {

TEST(GatedMlp, RefusesTheSameInEveryMode) {
  for (const Mode mode : available_modes()) {
    GatedMlp layer(8, 16, {.mode = mode});
    const Tensor x = randn({3, 8}, 1);
    layer.up_proj.weight = randn({1, 8}, 2);  // would be broadcast
    EXPECT_THROW(layer.forward(x), Error) << mode_name(mode);
    layer.up_proj.weight = randn({16, 8}, 2);
    layer.act = static_cast<Act>(77);
    EXPECT_NE(error_of([&] { layer.forward(x); }).find("activation 77 is not known"), std::string::npos)
        << mode_name(mode);
    layer.act = Act::silu;
    EXPECT_NO_THROW(layer.forward(x));
    layer.mode = static_cast<Mode>(9);
    EXPECT_EQ(error_of([&] { layer.forward(x); }), "mode 9 is not known");
  }
}

TEST(GatedMlp, HasNoWeightsOfWholeNumbers) {
  EXPECT_NE(error_of([] { GatedMlp(8, 16, {.tensor = {DType::i32}}); }).find("cannot be i32"),
            std::string::npos);
}

TEST(Compile, WatchesNoNullPointer) {
  EXPECT_THROW(compile([](const Tensor& x) { return relu(x); }, {.watch = {nullptr}}), Error);
}

}  // namespace
}  // namespace epilogue::nn
