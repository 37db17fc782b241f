// What the gated ops tell of themselves.
#pragma once

#include <string>

#include "epilogue/ops.h"

namespace epilogue {

// Whether an op takes the activation together with the product by up, as gelu_mul and silu_mul do, and with
// it activation_mul() and the kernels of packages.
bool has_act_mul(Act act);

// GatedWeights where they stand: a call of a small batch should not wait for copies of handles.
struct GatedParts {
  const Tensor &gate, &up, &down;
  const Tensor &gate_bias, &up_bias, &down_bias;
};
Tensor gated_linear(const Tensor& x, const GatedParts& parts, Act act);
Tensor gated_mlp(const Tensor& x, const GatedParts& parts, Act act);

// Why gated_mlp() runs neither by one kernel nor by gated_linear's: what these say; "" where it does.
std::string why_not_joined(const Tensor& x, const GatedWeights& weights, Act act);

}  // namespace epilogue
