// Layers with parameters that carry their Hugging Face names.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "epilogue/ops.h"
#include "epilogue/tensor.h"

namespace epilogue::nn {

// Parameters by name, e.g. "gate_proj.weight". The pointers point into the layer: moving or
// destroying it ends them.
using NamedParameters = std::vector<std::pair<std::string, Tensor*>>;

struct LinearOptions {
  bool bias = true;
  TensorOptions tensor{};
  uint64_t seed = 0;  // weights are normal, scaled by 1/sqrt(in)
};

class Linear {
 public:
  Linear(int64_t in, int64_t out, LinearOptions options = {});
  Tensor forward(const Tensor& x) const;
  NamedParameters named_parameters(const std::string& prefix = "");

  Tensor weight;  // [out, in]
  Tensor bias;    // [out], or undefined
};

// How the block runs; every way computes the same function.
enum class Mode : uint8_t { eager, compiled, tuned, fused };
const char* mode_name(Mode mode);
std::span<const Mode> available_modes();       // of this build
Mode mode_from_name(const std::string& name);  // throws Error that lists the modes this build has

struct MlpOptions {
  Act act = Act::gelu_tanh;
  bool bias = false;
  Mode mode = Mode::eager;
  TensorOptions tensor{};
  uint64_t seed = 0;
};

// fc2(act(fc1(x)))
class Mlp {
 public:
  Mlp(int64_t dim, int64_t hidden, MlpOptions options = {});
  Tensor forward(const Tensor& x) const;
  NamedParameters named_parameters(const std::string& prefix = "");

  Linear fc1, fc2;
  Act act;
  Mode mode;  // may be set at any time between calls
};

// down_proj(act(gate_proj(x)) * up_proj(x))
class GatedMlp {
 public:
  GatedMlp(int64_t dim, int64_t hidden, MlpOptions options = {});
  Tensor forward(const Tensor& x) const;
  NamedParameters named_parameters(const std::string& prefix = "");

  Linear gate_proj, up_proj, down_proj;
  Act act;
  Mode mode;  // may be set at any time between calls
};

// Fills parameters from a safetensors file whose names are `prefix` + the layer's own. Every parameter must
// be there with its shape; the dtype is converted. Throws Error naming the first that is missing or
// misshapen.
void load_parameters(const NamedParameters& parameters, const std::string& path,
                     const std::string& prefix = "");

}  // namespace epilogue::nn
