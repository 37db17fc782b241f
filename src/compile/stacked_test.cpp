#include "compile/stacked.h"

#include <gtest/gtest.h>

#include "close.h"

namespace epilogue::compiler {
namespace {

TEST(StackedConstants, AreSharedByPlansAndGoWithTheLast) {
  StackedConstants constants;
  const graph::Parts parts{randn({2, 4}, 1), randn({3, 4}, 2)};
  std::shared_ptr<StackedConstant> one = constants.of(parts);
  EXPECT_EQ(constants.of(parts), one);
  EXPECT_EQ(one->get().sizes(), (Dims{5, 4}));
  EXPECT_TRUE(one->get().shares_storage_with(one->get()));
  EXPECT_EQ(one->made(), 1);
  const std::weak_ptr<StackedConstant> after = one;
  one.reset();
  EXPECT_TRUE(after.expired());
}

TEST(StackedConstants, AreMadeAgainWhenAPartIsWritten) {
  StackedConstants constants;
  graph::Parts parts{randn({2, 4}, 1), randn({3, 4}, 2)};
  const std::shared_ptr<StackedConstant> one = constants.of(parts);
  one->get();
  parts[1].copy_(randn({3, 4}, 3));
  EXPECT_EQ(max_error(one->get().slice(0, 2, 5), parts[1]), 0);
  EXPECT_EQ(one->made(), 2);
}

TEST(StackedConstants, TellAViewFromItsTranspose) {
  StackedConstants constants;
  const Tensor square = randn({4, 4}, 1), below = randn({4, 4}, 2);
  const auto plain = constants.of({square, below}), turned = constants.of({square.t(), below});
  EXPECT_EQ(max_error(plain->get().slice(0, 0, 4), square), 0);
  EXPECT_EQ(max_error(turned->get().slice(0, 0, 4), square.t()), 0);
}

}  // namespace
}  // namespace epilogue::compiler
