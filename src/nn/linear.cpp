#include <cmath>

#include "base/check.h"
#include "epilogue/nn.h"

namespace epilogue::nn {
namespace {

// Normal numbers with a deviation of 1/sqrt(in), so that outputs keep the inputs' scale.
Tensor make_weight(int64_t in, int64_t out, const LinearOptions& options) {
  EP_CHECK(dtype_is_floating(options.tensor.dtype),
           "Linear: its weights cannot be {}, expected a floating dtype", dtype_name(options.tensor.dtype));
  const Tensor scale = full({1}, 1.0 / std::sqrt(static_cast<double>(in)), {DType::f32});
  return mul(randn({out, in}, options.seed), scale).to(options.tensor.dtype).to(options.tensor.device);
}

}  // namespace

Linear::Linear(int64_t in, int64_t out, LinearOptions options) : weight(make_weight(in, out, options)) {
  weight.set_parameter();
  if (options.bias) {
    bias = randn({out}, options.seed + 1).to(options.tensor.dtype).to(options.tensor.device);
    bias.set_parameter();
  }
}

Tensor Linear::forward(const Tensor& x) const { return linear(x, weight, bias); }

NamedParameters Linear::named_parameters(const std::string& prefix) {
  NamedParameters named{{prefix + "weight", &weight}};
  if (bias.defined()) named.emplace_back(prefix + "bias", &bias);
  return named;
}

}  // namespace epilogue::nn
