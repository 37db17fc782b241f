// The gated MLP by the kernels that join its parts, where the device has them.
#include "op/gated.h"

#include <string>
#include <vector>

#include "backend/backend.h"
#include "op/dispatch.h"

namespace epilogue {
namespace {

// With all biases or none, which is what the joined kernels take; otherwise empty.
std::vector<Tensor> with_biases(std::vector<Tensor> inputs, std::initializer_list<Tensor> biases) {
  size_t defined = 0;
  for (const Tensor& bias : biases)
    if (bias.defined()) {
      inputs.push_back(bias);
      ++defined;
    }
  if (defined != 0 && defined != biases.size()) return {};
  return inputs;
}

std::vector<Tensor> linear_inputs(const Tensor& x, const GatedWeights& weights) {
  return with_biases({x, weights.gate, weights.up}, {weights.gate_bias, weights.up_bias});
}

std::vector<Tensor> mlp_inputs(const Tensor& x, const GatedWeights& weights) {
  return with_biases({x, weights.gate, weights.up, weights.down},
                     {weights.gate_bias, weights.up_bias, weights.down_bias});
}

// Rows of x that are not evenly apart are brought together first, as they would be for a product.
bool folds(const Tensor& x) { return x.defined() && x.dim() != 0 && x.dim() != 2 && !x.is_contiguous(); }

// By one kernel where the device has one for the problem, otherwise undefined.
Tensor joined(Op op, std::vector<Tensor> inputs, Act act) {
  if (inputs.empty() || is_recording()) return {};
  const Tensor x = inputs[0];
  if (!folds(x)) return dispatch_if_taken(op, inputs, {.act = act});
  inputs[0] = fold_rows(x);
  const Tensor rows = dispatch_if_taken(op, inputs, {.act = act});
  if (!rows.defined()) return {};
  Dims sizes = x.sizes();
  sizes[x.dim() - 1] = rows.size(1);
  return rows.view(sizes);
}

}  // namespace

Tensor gated_linear(const Tensor& x, const GatedWeights& weights, Act act) {
  if (Tensor done = joined(Op::gated_linear, linear_inputs(x, weights), act); done.defined()) return done;
  return activation_mul(linear(x, weights.gate, weights.gate_bias), linear(x, weights.up, weights.up_bias),
                        act);
}

Tensor gated_mlp(const Tensor& x, const GatedWeights& weights, Act act) {
  if (Tensor done = joined(Op::gated_mlp, mlp_inputs(x, weights), act); done.defined()) return done;
  return linear(gated_linear(x, weights, act), weights.down, weights.down_bias);
}

std::string why_not_joined(const Tensor& given, const GatedWeights& weights, Act act) {
  const Tensor x = folds(given) ? fold_rows(given) : given;
  const auto reasons = [&](Op op, const std::vector<Tensor>& inputs) {
    return inputs.empty() ? std::vector<Refusal>{{"", "some biases are missing"}}
                          : refusals(op, inputs, {.act = act});
  };
  if (reasons(Op::gated_mlp, mlp_inputs(x, weights)).empty()) return "";
  std::string told;  // without the implementations' names, which no user knows
  for (const Refusal& refusal : reasons(Op::gated_linear, linear_inputs(x, weights)))
    told += (told.empty() ? "" : "; ") + refusal.reason;
  return told;
}

}  // namespace epilogue
