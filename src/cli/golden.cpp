#include "cli/golden.h"

#include <cmath>
#include <memory>

#include <fmt/format.h>

#include "base/check.h"
#include "cli/problem.h"
#include "epilogue/safetensors.h"
#include "io/safetensors_header.h"

namespace epilogue::cli {

double largest_difference(const Tensor& a, const Tensor& b) {
  const Tensor x = a.to(Device{}).to(DType::f64).contiguous(), y = b.to(DType::f64).contiguous();
  double worst = 0;
  for (int64_t i = 0; i < x.numel(); ++i) {
    const double difference = std::abs(x.data<double>()[i] - y.data<double>()[i]);
    if (!(difference <= worst)) worst = difference;
    if (std::isnan(worst)) return worst;
  }
  return worst;
}

namespace {

const Tensor& tensor_of(const SafetensorsFile& file, const std::string& name, const std::string& path) {
  const auto found = file.tensors.find(name);
  EP_CHECK(found != file.tensors.end(),
           "{}: no tensor '{}'; a golden file has x, y_f64, y_torch and the layer's weights", path, name);
  return found->second;
}

// The activation stands in the metadata or, where that does not tell, in the file's name:
// gated_mlp_<act>_<dtype>.safetensors.
Act act_of(const SafetensorsFile& file, const std::string& path) {
  if (const auto told = file.metadata.find("act"); told != file.metadata.end()) try {
      return act_from_name(told->second);
    } catch (const Error& error) {
      fail("{}: its metadata: {}", path, error.what());
    }
  const std::string name = path.substr(path.find_last_of('/') + 1);
  for (const Act act : {Act::gelu_tanh, Act::gelu, Act::silu, Act::relu, Act::none})
    if (name.starts_with(fmt::format("gated_mlp_{}_", act_name(act)))) return act;
  fail("{}: neither metadata 'act' nor the name, gated_mlp_<act>_<dtype>.safetensors, tells the activation",
       path);
}

Workload layer_of(const SafetensorsFile& file, const std::string& path, const GoldenRun& run) {
  const Tensor x = tensor_of(file, "x", path).to(run.device);
  const TensorOptions options{x.dtype(), run.device};
  if (file.tensors.contains("gate_proj.weight")) {
    const Tensor& gate = tensor_of(file, "gate_proj.weight", path);
    EP_CHECK(gate.dim() == 2, "{}: expected a gate_proj.weight of [hidden, dim], got {}", path,
             gate.sizes().to_string());
    const nn::MlpOptions mlp{.act = act_of(file, path),
                             .bias = file.tensors.contains("gate_proj.bias"),
                             .mode = run.mode,
                             .tensor = options};
    auto layer = std::make_shared<nn::GatedMlp>(gate.size(1), gate.size(0), mlp);
    nn::load_parameters(layer->named_parameters(), path);
    use_kernels(*layer, run.kernels);
    return gated_workload(layer, x);
  }
  const Tensor& weight = tensor_of(file, "weight", path);
  EP_CHECK(weight.dim() == 2, "{}: expected a weight of [out, in], got {}", path, weight.sizes().to_string());
  nn::Linear layer(weight.size(1), weight.size(0),
                   {.bias = file.tensors.contains("bias"), .tensor = options});
  nn::load_parameters(layer.named_parameters(), path);
  return function_workload([layer](const Tensor& in) { return layer.forward(in); }, x, run.mode);
}

}  // namespace

Verified verify_golden(const std::string& path, const GoldenRun& run) {
  const SafetensorsFile file = load_safetensors(path);
  for (const auto& [name, dtype] : file.unread)  // a layer without it would be another
    fail("{}: {}", path, safetensors::no_such_dtype(fmt::format("tensor \"{}\"", name), dtype));
  const Tensor& reference = tensor_of(file, "y_f64", path);
  const Tensor& peer = tensor_of(file, "y_torch", path);
  EP_CHECK(peer.sizes() == reference.sizes(), "{}: y_torch is {}, y_f64 is {}", path,
           peer.sizes().to_string(), reference.sizes().to_string());
  const double peer_error = largest_difference(peer, reference);
  EP_CHECK(std::isfinite(peer_error),
           "{}: y_torch and y_f64 differ by {}, so nothing could be compared with them", path, peer_error);
  const Workload layer = layer_of(file, path, run);
  wait_until_compiled(layer, run.mode);
  const Tensor y = layer.forward(layer.x);
  EP_CHECK(y.sizes() == reference.sizes(), "{}: the layer gives {}, y_f64 is {}", path, y.sizes().to_string(),
           reference.sizes().to_string());
  // Allowed: twice what PyTorch's own result is off by in that dtype, plus 1e-6.
  return {.file = path,
          .mode = nn::mode_name(run.mode),
          .note = mode_note(layer, run.mode),
          .max_error = largest_difference(y, reference),
          .allowed = 2 * peer_error + 1e-6};
}

}  // namespace epilogue::cli
