#include "trace/intervals.h"

#include <gtest/gtest.h>

namespace epilogue::trace {
namespace {

Intervals made(std::initializer_list<std::pair<int64_t, int64_t>> spans) {
  Intervals intervals;
  for (const auto& [from, to] : spans) intervals.add(from, to);
  return intervals;
}

TEST(Intervals, OverlapsCountOnce) {
  const Intervals all = made({{0, 10}, {5, 20}, {30, 40}});
  EXPECT_EQ(all.total(), 30);
  EXPECT_EQ(all.within(8, 35), 17);
}

TEST(Intervals, WithoutOthersCutsThemOut) {
  const Intervals left = made({{0, 10}, {20, 40}, {50, 60}}).without(made({{5, 25}, {30, 32}, {50, 60}}));
  EXPECT_EQ(left.total(), 5 + 5 + 8);
  EXPECT_EQ(left.within(5, 25), 0);
  EXPECT_EQ(left.within(30, 32), 0);
  EXPECT_EQ(left.within(50, 60), 0);
  EXPECT_EQ(made({{0, 10}}).without(made({{2, 3}, {4, 5}})).total(), 8);
}

TEST(Intervals, OfSeveralThreadsAreUnited) {
  const Intervals parts[] = {made({{10, 20}, {50, 60}}), made({{0, 15}, {55, 70}})};
  EXPECT_EQ(Intervals::united(parts).total(), 40);
}

}  // namespace
}  // namespace epilogue::trace
