// The gated MLP by the kernels that join its parts, where the device has them.
#include <vector>

#include "epilogue/ops.h"
#include "op/dispatch.h"

namespace epilogue {
namespace {

// All biases or none: what the joined kernels take.
bool add_biases(std::vector<Tensor>& inputs, std::initializer_list<Tensor> biases) {
  size_t defined = 0;
  for (const Tensor& bias : biases)
    if (bias.defined()) {
      inputs.push_back(bias);
      ++defined;
    }
  return defined == 0 || defined == biases.size();
}

}  // namespace

Tensor gated_linear(const Tensor& x, const GatedWeights& weights, Act act) {
  std::vector<Tensor> inputs{x, weights.gate, weights.up};
  if (add_biases(inputs, {weights.gate_bias, weights.up_bias}))
    if (Tensor joined = dispatch_if_taken(Op::gated_linear, inputs, {.act = act}); joined.defined())
      return joined;
  return activation_mul(linear(x, weights.gate, weights.gate_bias), linear(x, weights.up, weights.up_bias),
                        act);
}

Tensor gated_mlp(const Tensor& x, const GatedWeights& weights, Act act) {
  std::vector<Tensor> inputs{x, weights.gate, weights.up, weights.down};
  if (add_biases(inputs, {weights.gate_bias, weights.up_bias, weights.down_bias}))
    if (Tensor joined = dispatch_if_taken(Op::gated_mlp, inputs, {.act = act}); joined.defined())
      return joined;
  return linear(gated_linear(x, weights, act), weights.down, weights.down_bias);
}

}  // namespace epilogue
