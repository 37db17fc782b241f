// What a pointwise op computes, its attributes included: what the kernels of every backend are chosen by.
#pragma once

#include <cstdint>

#include "op/op.h"

namespace epilogue {

enum class Pointwise : uint8_t {
  add,
  mul,
  relu,
  silu,
  gelu_tanh,
  gelu,
  silu_mul,
  gelu_tanh_mul,
  gelu_mul,
  count
};

Pointwise pointwise_function(Op op, const Attrs& attrs);  // of an op of class pointwise

}  // namespace epilogue
