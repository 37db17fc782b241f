// The gated MLP by the kernels that join its parts, where the device has them.
#include "op/gated.h"

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "op/dispatch.h"

namespace epilogue {
namespace {

// An op's inputs, without the heap. Biases come all or not at all, which is what the joined kernels take:
// with only some of them it is empty.
class JoinedInputs {
 public:
  JoinedInputs(std::initializer_list<const Tensor*> weights, std::initializer_list<const Tensor*> biases) {
    for (const Tensor* weight : weights) all_[count_++] = *weight;
    for (const Tensor* bias : biases)
      if (bias->defined()) all_[count_++] = *bias;
    if (count_ != weights.size() && count_ != weights.size() + biases.size()) count_ = 0;
  }
  std::span<const Tensor> get() const { return {all_.data(), count_}; }
  void fold_x(Tensor rows) { all_[0] = std::move(rows); }

 private:
  std::array<Tensor, 7> all_;
  size_t count_ = 0;
};

JoinedInputs linear_inputs(const Tensor& x, const GatedParts& parts) {
  return {{&x, &parts.gate, &parts.up}, {&parts.gate_bias, &parts.up_bias}};
}

JoinedInputs mlp_inputs(const Tensor& x, const GatedParts& parts) {
  return {{&x, &parts.gate, &parts.up, &parts.down}, {&parts.gate_bias, &parts.up_bias, &parts.down_bias}};
}

GatedParts parts_of(const GatedWeights& weights) {
  return {weights.gate, weights.up, weights.down, weights.gate_bias, weights.up_bias, weights.down_bias};
}

// Rows of x that are not evenly apart are brought together first, as they would be for a product.
bool folds(const Tensor& x) { return x.defined() && x.dim() != 0 && x.dim() != 2 && !x.is_contiguous(); }

// By one kernel where the device has one for the problem, otherwise undefined.
Tensor joined(Op op, const Tensor& x, JoinedInputs inputs, Act act) {
  check_known(act);
  if (inputs.get().empty() || is_recording()) return {};
  if (!folds(x)) return dispatch_if_taken(op, inputs.get(), {.act = act});
  inputs.fold_x(fold_rows(x));
  const Tensor rows = dispatch_if_taken(op, inputs.get(), {.act = act});
  if (!rows.defined()) return {};
  Dims sizes = x.sizes();
  sizes[x.dim() - 1] = rows.size(1);
  return rows.view(sizes);
}

}  // namespace

Tensor gated_linear(const Tensor& x, const GatedParts& parts, Act act) {
  if (Tensor done = joined(Op::gated_linear, x, linear_inputs(x, parts), act); done.defined()) return done;
  return activation_mul(linear(x, parts.gate, parts.gate_bias), linear(x, parts.up, parts.up_bias), act);
}

Tensor gated_mlp(const Tensor& x, const GatedParts& parts, Act act) {
  if (Tensor done = joined(Op::gated_mlp, x, mlp_inputs(x, parts), act); done.defined()) return done;
  return linear(gated_linear(x, parts, act), parts.down, parts.down_bias);
}

Tensor gated_linear(const Tensor& x, const GatedWeights& weights, Act act) {
  return gated_linear(x, parts_of(weights), act);
}

Tensor gated_mlp(const Tensor& x, const GatedWeights& weights, Act act) {
  return gated_mlp(x, parts_of(weights), act);
}

std::string why_not_joined(const Tensor& given, const GatedWeights& weights, Act act) {
  const Tensor x = folds(given) ? fold_rows(given) : given;
  const GatedParts parts = parts_of(weights);
  const auto reasons = [&](Op op, const JoinedInputs& inputs) {
    return inputs.get().empty() ? std::vector<Refusal>{{"", "some biases are missing"}}
                                : refusals(op, inputs.get(), {.act = act});
  };
  if (reasons(Op::gated_mlp, mlp_inputs(x, parts)).empty()) return "";
  std::string told;  // without the implementations' names, which no user knows
  for (const Refusal& refusal : reasons(Op::gated_linear, linear_inputs(x, parts)))
    told += (told.empty() ? "" : "; ") + refusal.reason;
  return told;
}

}  // namespace epilogue
