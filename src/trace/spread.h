// What a figure is over the steps of a trace, and which differences that leaves meaningful.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace epilogue::trace {

// Halfway between the two in the middle where there are two; 0 of none.
template <class Number>
Number median_of(std::vector<Number> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const Number low = values[(values.size() - 1) / 2], high = values[values.size() / 2];
  return low + (high - low) / 2;
}

// A first step that still allocates, compiles or waits for a clock to rise is slow by itself: from three
// steps on the slowest does not count, or it would stretch the range of a short trace over any change.
struct Spread {
  int64_t median = 0;
  // Without the lowest and the highest tenth; of three to nine without the highest; all of one or two.
  int64_t low = 0, high = 0;
  size_t count = 0;

  Spread() = default;
  explicit Spread(std::vector<int64_t> values) : count(values.size()) {
    if (values.empty()) return;
    median = median_of(values);
    std::sort(values.begin(), values.end());
    low = values[count / 10];
    high = values[count - 1 - (count < 3 ? 0 : std::max<size_t>(1, count / 10))];
  }
};

// Of one side both the median and the quickest step are over 1.5 times the other's: a neighbour on the
// machine lengthens some steps that much, not all.
inline bool beyond_any_noise(const Spread& a, const Spread& b) {
  const auto longer = [](const Spread& more, const Spread& less) {
    return more.median - less.median > less.median / 2 && more.low - less.low > less.low / 2;
  };
  return longer(a, b) || longer(b, a);
}

// The steps of the two overlap in this figure, and the change is not too large for that to excuse it. One
// step against one overlaps in nothing but equality.
inline bool within_noise(const Spread& a, const Spread& b) {
  return a.low <= b.high && b.low <= a.high && !beyond_any_noise(a, b);
}

// (b - a) / a; infinite where a alone is 0.
inline double relative_change(const Spread& a, const Spread& b) {
  if (a.median == b.median) return 0;
  if (a.median == 0) return std::numeric_limits<double>::infinity();
  return static_cast<double>(b.median - a.median) / static_cast<double>(a.median);
}

}  // namespace epilogue::trace
