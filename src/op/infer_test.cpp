#include "op/infer.h"

#include <gtest/gtest.h>

namespace epilogue {
namespace {

TEST(Infer, CountsTheFlopsOfProducts) {
  const Tensor x = ones({3, 4}), wide = ones({5, 4}), down = ones({2, 5});
  EXPECT_EQ(infer(Op::mm, std::vector{x, wide.t()}, {}).flops, 2 * 3 * 5 * 4);
  EXPECT_EQ(infer(Op::gated_linear, std::vector{x, wide, wide}, {}).flops, 2 * 2 * 3 * 5 * 4);
  EXPECT_EQ(infer(Op::gated_mlp, std::vector{x, wide, wide, down}, {}).flops, 2 * 3 * 5 * (2 * 4 + 2));
}

TEST(Infer, FlopsThatNo64BitsCountStayTheMost) {
  const Tensor x = ones({1, 4}).expand({int64_t{1} << 59, 4}), weight = ones({4, 4});
  EXPECT_EQ(infer(Op::mm, std::vector{x, weight}, {}).flops, INT64_MAX);
  EXPECT_EQ(infer(Op::gated_mlp, std::vector{x, weight, weight, weight}, {}).flops, INT64_MAX);
}

}  // namespace
}  // namespace epilogue
