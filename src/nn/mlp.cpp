#include "base/check.h"
#include "epilogue/nn.h"

namespace epilogue::nn {
namespace {

LinearOptions linear_options(const MlpOptions& options, uint64_t layer) {
  return {.bias = options.bias, .tensor = options.tensor, .seed = options.seed + 16 * layer};
}

void append(NamedParameters& all, NamedParameters part) { all.insert(all.end(), part.begin(), part.end()); }

}  // namespace

const char* mode_name(Mode mode) {
  switch (mode) {
    case Mode::eager:
      return "eager";
    case Mode::compiled:
      return "compiled";
    case Mode::tuned:
      return "tuned";
    case Mode::fused:
      return "fused";
  }
  return "";
}

Mode mode_from_name(const std::string& name) {
  for (const Mode mode : available_modes())
    if (name == mode_name(mode)) return mode;
  std::string known;
  for (const Mode mode : available_modes())
    known += (known.empty() ? "" : ", ") + std::string(mode_name(mode));
  fail("mode '{}' is not in this build: expected {}", name, known);
}

std::span<const Mode> available_modes() {
  static constexpr Mode kModes[] = {Mode::eager, Mode::tuned};
  return kModes;
}

Mlp::Mlp(int64_t dim, int64_t hidden, MlpOptions options)
    : fc1(dim, hidden, linear_options(options, 0)),
      fc2(hidden, dim, linear_options(options, 1)),
      act(options.act),
      mode(options.mode) {}

Tensor Mlp::forward(const Tensor& x) const { return fc2.forward(activation(fc1.forward(x), act)); }

NamedParameters Mlp::named_parameters(const std::string& prefix) {
  NamedParameters named = fc1.named_parameters(prefix + "fc1.");
  append(named, fc2.named_parameters(prefix + "fc2."));
  return named;
}

GatedMlp::GatedMlp(int64_t dim, int64_t hidden, MlpOptions options)
    : gate_proj(dim, hidden, linear_options(options, 0)),
      up_proj(dim, hidden, linear_options(options, 1)),
      down_proj(hidden, dim, linear_options(options, 2)),
      act(options.act),
      mode(options.mode) {}

Tensor GatedMlp::forward(const Tensor& x) const {
  const Tensor gate = gate_proj.forward(x);
  const Tensor up = up_proj.forward(x);
  return down_proj.forward(mode == Mode::tuned ? activation_mul(gate, up, act)
                                               : mul(activation(gate, act), up));
}

NamedParameters GatedMlp::named_parameters(const std::string& prefix) {
  NamedParameters named = gate_proj.named_parameters(prefix + "gate_proj.");
  append(named, up_proj.named_parameters(prefix + "up_proj."));
  append(named, down_proj.named_parameters(prefix + "down_proj."));
  return named;
}

}  // namespace epilogue::nn
