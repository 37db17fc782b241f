// What a figure is over the steps of a trace, and which differences that leaves meaningful.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace epilogue::trace {

struct Spread {
  int64_t median = 0, min = 0, max = 0;
  size_t count = 0;

  Spread() = default;
  explicit Spread(std::vector<int64_t> values) : count(values.size()) {
    if (values.empty()) return;
    const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    median = *middle;
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    min = *least;
    max = *most;
  }
};

// The medians lie no further apart than the steps of one of the traces do. One step has no spread: then no
// difference is within noise.
inline bool within_noise(const Spread& a, const Spread& b) {
  const int64_t apart = a.median < b.median ? b.median - a.median : a.median - b.median;
  return apart <= std::max(a.max - a.min, b.max - b.min);
}

// (b - a) / a; infinite where a alone is 0.
inline double relative_change(const Spread& a, const Spread& b) {
  if (a.median == b.median) return 0;
  if (a.median == 0) return std::numeric_limits<double>::infinity();
  return static_cast<double>(b.median - a.median) / static_cast<double>(a.median);
}

}  // namespace epilogue::trace
