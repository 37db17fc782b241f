// Stretches of time, united.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace epilogue::trace {

class Intervals {
 public:
  // In the order of their starts.
  void add(int64_t from, int64_t to) {
    if (!spans_.empty() && from <= spans_.back().to) {
      spans_.back().to = std::max(spans_.back().to, to);
      return;
    }
    spans_.push_back({from, to, total()});
  }

  int64_t total() const {
    return spans_.empty() ? 0 : spans_.back().before + spans_.back().to - spans_.back().from;
  }
  int64_t within(int64_t from, int64_t to) const { return until(to) - until(from); }

  Intervals without(const Intervals& others) const {
    Intervals left;
    auto other = others.spans_.begin();
    for (const Span& span : spans_) {
      int64_t from = span.from;
      while (other != others.spans_.end() && other->to <= from) ++other;
      for (auto at = other; at != others.spans_.end() && at->from < span.to; ++at) {
        if (at->from > from) left.add(from, at->from);
        from = std::max(from, at->to);
      }
      if (from < span.to) left.add(from, span.to);
    }
    return left;
  }

  static Intervals united(std::span<const Intervals> parts) {
    std::vector<std::pair<int64_t, int64_t>> spans;
    for (const Intervals& part : parts)
      for (const Span& span : part.spans_) spans.emplace_back(span.from, span.to);
    std::sort(spans.begin(), spans.end());
    Intervals all;
    for (const auto& [from, to] : spans) all.add(from, to);
    return all;
  }

 private:
  struct Span {
    int64_t from, to, before;  // before: the length of all spans before it
  };
  int64_t until(int64_t ns) const {
    const auto after = std::upper_bound(spans_.begin(), spans_.end(), ns,
                                        [](int64_t t, const Span& span) { return t < span.from; });
    if (after == spans_.begin()) return 0;
    const Span& last = *(after - 1);
    return last.before + std::min(ns, last.to) - last.from;
  }
  std::vector<Span> spans_;
};

}  // namespace epilogue::trace
