#include "base/check.h"
#include "epilogue/nn.h"
#include "epilogue/safetensors.h"

namespace epilogue::nn {

void load_parameters(const NamedParameters& parameters, const std::string& path, const std::string& prefix) {
  const SafetensorsFile file = load_safetensors(path);
  // Everything is checked before the first parameter is written.
  for (const auto& [name, parameter] : parameters) {
    const auto found = file.tensors.find(prefix + name);
    EP_CHECK(found != file.tensors.end(), "{}: no tensor '{}', expected {} {}", path, prefix + name,
             dtype_name(parameter->dtype()), parameter->sizes().to_string());
    EP_CHECK(found->second.sizes() == parameter->sizes(), "{}: tensor '{}' is {}, the layer expects {}", path,
             prefix + name, found->second.sizes().to_string(), parameter->sizes().to_string());
  }
  for (const auto& [name, parameter] : parameters) parameter->copy_(file.tensors.at(prefix + name));
}

}  // namespace epilogue::nn
