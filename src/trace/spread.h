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

struct Spread {
  int64_t median = 0;
  int64_t low = 0, high = 0;  // without the lowest and the highest tenth; all of fewer than ten
  size_t count = 0;

  Spread() = default;
  explicit Spread(std::vector<int64_t> values) : count(values.size()) {
    if (values.empty()) return;
    median = median_of(values);
    std::sort(values.begin(), values.end());
    low = values[count / 10];
    high = values[count - 1 - count / 10];
  }
};

// The steps of the two overlap in this figure. One step against one overlaps in nothing but equality.
inline bool within_noise(const Spread& a, const Spread& b) { return a.low <= b.high && b.low <= a.high; }

// (b - a) / a; infinite where a alone is 0.
inline double relative_change(const Spread& a, const Spread& b) {
  if (a.median == b.median) return 0;
  if (a.median == 0) return std::numeric_limits<double>::infinity();
  return static_cast<double>(b.median - a.median) / static_cast<double>(a.median);
}

}  // namespace epilogue::trace
