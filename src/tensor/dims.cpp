#include <algorithm>

#include "base/check.h"
#include "epilogue/tensor.h"

namespace epilogue {

Dims::Dims(const int64_t* values, size_t count) : count_(static_cast<int>(count)) {
  EP_CHECK(count <= kMaxDims, "a tensor has at most {} dimensions, got {}", kMaxDims, count);
  std::copy_n(values, count, values_.begin());
}

void Dims::push_back(int64_t value) { insert(count_, value); }

void Dims::insert(int at, int64_t value) {
  EP_CHECK(count_ < kMaxDims, "a tensor has at most {} dimensions", kMaxDims);
  std::copy_backward(begin() + at, end(), end() + 1);
  values_[static_cast<size_t>(at)] = value;
  ++count_;
}

void Dims::erase(int at) {
  std::copy(begin() + at + 1, end(), begin() + at);
  --count_;
}

bool Dims::operator==(const Dims& other) const {
  return std::equal(begin(), end(), other.begin(), other.end());
}

std::string Dims::to_string() const { return fmt::format("[{}]", fmt::join(begin(), end(), ", ")); }

Dims contiguous_strides(const Dims& sizes) {
  Dims strides = sizes;
  int64_t stride = 1;
  for (int d = sizes.size() - 1; d >= 0; --d) {
    strides[d] = stride;
    EP_CHECK(!__builtin_mul_overflow(stride, std::max<int64_t>(sizes[d], 1), &stride),
             "sizes {} have more elements than 64 bits count", sizes.to_string());
  }
  return strides;
}

Dims broadcast_shapes(const Dims& a, const Dims& b) {
  const Dims& longer = a.size() >= b.size() ? a : b;
  const Dims& shorter = a.size() >= b.size() ? b : a;
  Dims result = longer;
  const int lead = longer.size() - shorter.size();
  for (int d = 0; d < shorter.size(); ++d) {
    const int64_t x = longer[lead + d], y = shorter[d];
    EP_CHECK(x == y || x == 1 || y == 1,
             "shapes {} and {} do not broadcast: {} and {} differ at dimension {} and neither is 1",
             a.to_string(), b.to_string(), x, y, lead + d);
    result[lead + d] = x == 1 ? y : x;
  }
  return result;
}

}  // namespace epilogue
