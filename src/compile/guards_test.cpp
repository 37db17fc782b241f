#include "compile/guards.h"

#include <gtest/gtest.h>

namespace epilogue::compiler {
namespace {

TEST(Guards, HoldForWhatTheyWereMadeOfAndTellNothing) {
  const Tensor x = randn({4, 8}, 1), weight = randn({8, 8}, 2), none;
  const std::vector<const Tensor*> watched{&weight, &none};
  const Guards guards(std::span(&x, 1), watched, true);
  EXPECT_TRUE(guards.hold(std::span(&x, 1), watched));
  EXPECT_EQ(guards.what_changed(std::span(&x, 1), watched), "");
}

TEST(Guards, OtherSizesDoNotHoldAndAreNoReason) {
  const Tensor x = randn({4, 8}, 1), y = randn({5, 8}, 1), undefined;
  const Guards guards(std::span(&x, 1), {}, false);
  EXPECT_FALSE(guards.hold(std::span(&y, 1), {}));
  EXPECT_FALSE(guards.hold(std::span(&undefined, 1), {}));
  EXPECT_EQ(guards.what_changed(std::span(&y, 1), {}), "");
}

TEST(Guards, TellWhateverDoesNotHold) {
  const Tensor x = randn({4, 8}, 1), store = randn({64}, 1);
  const auto told = [](const Tensor& was, const Tensor& is, bool exact) {
    const Guards guards(std::span(&was, 1), {}, exact);
    EXPECT_FALSE(guards.hold(std::span(&is, 1), {}));
    return guards.what_changed(std::span(&is, 1), {});
  };
  EXPECT_EQ(told(x, x.to(DType::bf16), false), "input 0: dtype f32 became bf16");
  EXPECT_EQ(told(x, x.view({2, 2, 8}), false), "input 0: 2 dimensions became 3");
  EXPECT_EQ(told(x, randn({8, 4}, 1).t(), false), "input 0: was contiguous and is not now");
  const Tensor wide = store.as_strided({4, 8}, {9, 1}, 0), wider = store.as_strided({4, 8}, {10, 1}, 0);
  EXPECT_EQ(told(wide, wider, false), "input 0: strides [9, 1] became [10, 1]");
  EXPECT_EQ(told(store.slice(0, 0, 8), store.slice(0, 1, 9), false),
            "input 0: was aligned to 16 bytes and is not now");
  const std::string place =
      "input 0: as_strided was asked of it, and it lies elsewhere in its storage or that is smaller";
  EXPECT_EQ(told(store.slice(0, 0, 8), store.slice(0, 8, 16), true), place);
  EXPECT_EQ(told(store.slice(0, 0, 8), randn({8}, 1), true), place);
}

TEST(Guards, AWatchedTensorIsAnotherUnderOtherStrides) {
  Tensor weight = randn({8, 8}, 2);
  const Tensor* const place = &weight;
  const Guards guards({}, std::span(&place, 1), false);
  weight = weight.t();
  EXPECT_FALSE(guards.hold({}, std::span(&place, 1)));
  EXPECT_FALSE(guards.same_watched(std::span(&place, 1)));
  EXPECT_EQ(guards.what_changed({}, std::span(&place, 1)), "the watched tensor 0 was replaced by another");
}

}  // namespace
}  // namespace epilogue::compiler
