#include "base/check.h"
#include "epilogue/nn.h"
#include "op/dispatch.h"
#include "op/gated.h"

namespace epilogue::nn {
namespace {

LinearOptions linear_options(const MlpOptions& options, uint64_t layer) {
  return {.bias = options.bias, .tensor = options.tensor, .seed = options.seed + 16 * layer};
}

// The places of a layer's parameters, so that one that is replaced is seen.
template <class... Linears>
std::vector<const Tensor*> places(const Linears&... linears) {
  std::vector<const Tensor*> all;
  for (const Linear* linear : {&linears...}) {
    all.push_back(&linear->weight);
    all.push_back(&linear->bias);
  }
  return all;
}

void append(NamedParameters& all, NamedParameters part) { all.insert(all.end(), part.begin(), part.end()); }

// A number may have been cast to one, as where a configuration is read.
void check_mode(Mode mode) {
  EP_CHECK(*mode_name(mode) != '\0', "mode {} is not known", static_cast<int>(mode));
}

Tensor act_mul_by(const AskedImplementation* kernel, const Tensor& gate, const Tensor& up, Act act) {
  check_known(act);
  EP_CHECK(has_act_mul(act), "GatedMlp: its kernel package has no activation {}", act_name(act));
  const Tensor inputs[] = {gate, up};
  const auto approximate = act == Act::gelu_tanh ? GeluApproximate::tanh : GeluApproximate::none;
  return dispatch(act == Act::silu ? Op::silu_mul : Op::gelu_mul, inputs,
                  {.approximate = approximate, .implementation = kernel});
}

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
  fail("mode '{}' is not known: expected {}", name, known);
}

std::span<const Mode> available_modes() {
  static constexpr Mode kModes[] = {Mode::eager, Mode::compiled, Mode::tuned, Mode::fused};
  return kModes;
}

Tensor CompiledForward::operator()(const Tensor& x, intptr_t key,
                                   const std::function<CompiledFunction()>& make) const {
  CompiledFunction function;
  {
    const std::lock_guard lock(mutex_);
    if (!function_ || key_ != key) {
      function_ = make();
      key_ = key;
    }
    function = function_;
  }
  return function(x);
}

CompiledFunction CompiledForward::function() const {
  const std::lock_guard lock(mutex_);
  return function_;
}

Mlp::Mlp(int64_t dim, int64_t hidden, MlpOptions options)
    : fc1(dim, hidden, linear_options(options, 0)),
      fc2(hidden, dim, linear_options(options, 1)),
      act(options.act),
      mode(options.mode) {}

Tensor Mlp::forward(const Tensor& x) const {
  check_mode(mode);
  const auto run = [this](const Tensor& in) { return fc2.forward(activation(fc1.forward(in), act)); };
  if (mode != Mode::compiled) return run(x);
  return compiled_(x, static_cast<int>(act), [&] {
    return compile(std::function<Tensor(const Tensor&)>(run),
                   {.name = "ep::compiled_mlp", .watch = places(fc1, fc2)});
  });
}

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
  check_mode(mode);
  const bool both = gate_proj.weight.defined() && up_proj.weight.defined();
  EP_CHECK(!both || gate_proj.weight.sizes() == up_proj.weight.sizes(),  // one of them would be broadcast
           "GatedMlp: gate_proj.weight {} and up_proj.weight {} differ", gate_proj.weight.sizes().to_string(),
           up_proj.weight.sizes().to_string());
  EP_CHECK(mode != Mode::fused || !act_mul_kernel,
           "GatedMlp: a kernel package's act-mul kernel has no place in mode fused; use tuned, or "
           "restore_kernels()");
  if (mode == Mode::fused) {
    const GatedParts parts{gate_proj.weight, up_proj.weight, down_proj.weight,
                           gate_proj.bias,   up_proj.bias,   down_proj.bias};
    return gated_mlp(x, parts, act);
  }
  const auto run = [this](const Tensor& in) {
    // On a CPU up comes to stand where gate was, while the caches still have it (eager, f32, 1024 rows of
    // 768/3072: 49.1 ms to 46.9). On a GPU the second product begins under the first.
    if (in.device().type == DeviceType::cpu && !act_mul_kernel && mode != Mode::tuned) {
      const Tensor activated = activation(gate_proj.forward(in), act);
      return down_proj.forward(mul(activated, up_proj.forward(in)));
    }
    const Tensor gate = gate_proj.forward(in);
    const Tensor up = up_proj.forward(in);
    if (act_mul_kernel) return down_proj.forward(act_mul_by(act_mul_kernel, gate, up, act));
    return down_proj.forward(mode == Mode::tuned ? activation_mul(gate, up, act)
                                                 : mul(activation(gate, act), up));
  };
  if (mode != Mode::compiled) return run(x);
  // Kernels are aligned to more bytes than there are activations.
  const intptr_t key = reinterpret_cast<intptr_t>(act_mul_kernel) + static_cast<intptr_t>(act);
  return compiled_(x, key, [&] {
    return compile(std::function<Tensor(const Tensor&)>(run),
                   {.name = "ep::compiled_gated_mlp", .watch = places(gate_proj, up_proj, down_proj)});
  });
}

GatedWeights GatedMlp::weights() const {
  return {.gate = gate_proj.weight,
          .up = up_proj.weight,
          .down = down_proj.weight,
          .gate_bias = gate_proj.bias,
          .up_bias = up_proj.bias,
          .down_bias = down_proj.bias};
}

NamedParameters GatedMlp::named_parameters(const std::string& prefix) {
  NamedParameters named = gate_proj.named_parameters(prefix + "gate_proj.");
  append(named, up_proj.named_parameters(prefix + "up_proj."));
  append(named, down_proj.named_parameters(prefix + "down_proj."));
  return named;
}

}  // namespace epilogue::nn
