// What the gated ops tell of themselves.
#pragma once

#include <string>

#include "epilogue/ops.h"

namespace epilogue {

// Why gated_mlp() runs neither by one kernel nor by gated_linear's: what these say; "" where it does.
std::string why_not_joined(const Tensor& x, const GatedWeights& weights, Act act);

}  // namespace epilogue
