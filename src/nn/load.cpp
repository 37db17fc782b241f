#include "base/check.h"
#include "epilogue/nn.h"
#include "epilogue/safetensors.h"

namespace epilogue::nn {

void load_parameters(const NamedParameters& parameters, const std::string& path, const std::string& prefix) {
  std::vector<std::string> names;
  for (const auto& [name, parameter] : parameters) names.push_back(prefix + name);
  const Checkpoint checkpoint = load_checkpoint(path, names);
  // Everything is checked before the first parameter is written.
  for (const auto& [name, parameter] : parameters) {
    const auto found = checkpoint.tensors.find(prefix + name);
    EP_CHECK(found != checkpoint.tensors.end(), "{}: no tensor '{}', expected {} {}", checkpoint.path,
             prefix + name, dtype_name(parameter->dtype()), parameter->sizes().to_string());
    EP_CHECK(found->second.sizes() == parameter->sizes(), "{}: tensor '{}' is {}, the layer expects {}",
             checkpoint.path, prefix + name, found->second.sizes().to_string(),
             parameter->sizes().to_string());
  }
  for (const auto& [name, parameter] : parameters) parameter->copy_(checkpoint.tensors.at(prefix + name));
}

}  // namespace epilogue::nn
