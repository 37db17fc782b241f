// Layers with parameters that carry their Hugging Face names.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "epilogue/compile.h"
#include "epilogue/ops.h"
#include "epilogue/tensor.h"

namespace epilogue {
struct AskedImplementation;
}

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

// How the block runs; every way computes the same function, within the same error of float64. The last bits
// differ between the ways, and on CUDA until a size's kernels have been chosen, in its first few dozen calls.
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

// A layer's forward, compiled at its first call. It belongs to one layer: a copy of the layer starts without.
class CompiledForward {
 public:
  CompiledForward() = default;
  CompiledForward(const CompiledForward&) {}
  CompiledForward& operator=(const CompiledForward&) { return *this; }

  // Calls what `make` has given for this `key`; another key has it made anew.
  Tensor operator()(const Tensor& x, intptr_t key, const std::function<CompiledFunction()>& make) const;
  CompiledFunction function() const;  // empty before the first call

 private:
  mutable std::mutex mutex_;
  mutable CompiledFunction function_;
  mutable intptr_t key_ = 0;
};

// fc2(act(fc1(x)))
class Mlp {
 public:
  Mlp(int64_t dim, int64_t hidden, MlpOptions options = {});
  Tensor forward(const Tensor& x) const;
  NamedParameters named_parameters(const std::string& prefix = "");
  // What mode `compiled` runs: its statistics, wait_ready(), explain(). Empty before its first call.
  CompiledFunction compiled() const { return compiled_.function(); }

  Linear fc1, fc2;
  Act act;
  Mode mode;  // may be set at any time between calls

 private:
  CompiledForward compiled_;
};

// down_proj(act(gate_proj(x)) * up_proj(x))
class GatedMlp {
 public:
  GatedMlp(int64_t dim, int64_t hidden, MlpOptions options = {});
  Tensor forward(const Tensor& x) const;
  NamedParameters named_parameters(const std::string& prefix = "");
  // What mode `compiled` runs: its statistics, wait_ready(), explain(). Empty before its first call.
  CompiledFunction compiled() const { return compiled_.function(); }

  GatedWeights weights() const;  // the parameters as gated_mlp() takes them

  Linear gate_proj, up_proj, down_proj;
  Act act;
  Mode mode;  // may be set at any time between calls
  // What multiplies act(gate) with up, set by use_kernels() (kernels.h); null: the built-in kernels.
  const AskedImplementation* act_mul_kernel = nullptr;

 private:
  CompiledForward compiled_;
};

// Fills parameters from a checkpoint whose names are `prefix` + the layer's own. `path` is a safetensors
// file, the model.safetensors.index.json of a model in several files, of which those that hold these
// parameters are opened, or the folder with either. Every parameter must be there with its shape; the dtype
// is converted. Throws Error naming the first that is missing or misshapen, and then no parameter was
// written.
void load_parameters(const NamedParameters& parameters, const std::string& path,
                     const std::string& prefix = "");

}  // namespace epilogue::nn
