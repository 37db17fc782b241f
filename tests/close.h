// How far two tensors are apart, and whether they are at all.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "epilogue/tensor.h"

namespace epilogue {

// The largest absolute difference; infinite where a number stands against a NaN or the shapes differ.
inline double max_error(const Tensor& found, const Tensor& expected) {
  if (found.sizes() != expected.sizes()) return std::numeric_limits<double>::infinity();
  const Tensor a = found.to(Device{}).to(DType::f64).contiguous();
  const Tensor b = expected.to(Device{}).to(DType::f64).contiguous();
  double worst = 0;
  for (int64_t i = 0; i < a.numel(); ++i) {
    const double x = a.data<double>()[i], y = b.data<double>()[i];
    if (std::isnan(x) && std::isnan(y)) continue;
    const double error = std::abs(x - y);
    worst = std::max(worst, std::isnan(error) ? std::numeric_limits<double>::infinity() : error);
  }
  return worst;
}

// Of contiguous tensors, wherever they are.
inline bool same_bits(const Tensor& a, const Tensor& b) {
  const Tensor x = a.to(Device{}), y = b.to(Device{});
  return x.sizes() == y.sizes() && x.dtype() == y.dtype() && std::memcmp(x.data(), y.data(), x.nbytes()) == 0;
}

}  // namespace epilogue
