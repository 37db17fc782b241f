#include "base/check.h"
#include "epilogue/kernels.h"
#include "package/kernel.h"
#include "package/load.h"

namespace epilogue {
namespace package {
namespace {

constexpr const char* kGatedMlp = "GatedMlp";

// What the package has for this layer. Throws Error with what it lacks.
const PackageKernel& kernel_for(const nn::GatedMlp& layer, const Reference& reference,
                                const UseKernelsOptions& options) {
  const Tensor& weight = layer.gate_proj.weight;
  const Loaded loaded = load_package(Cache::of_user(), reference, user_policy(),
                                     {.device = weight.device(), .lock_file = options.lock_file});
  const Manifest& manifest = loaded.known.manifest;
  const std::string name = reference.to_string(), op = abi_op_name(layer.act);
  const ProvidedLayer* provided = manifest.layer(kGatedMlp);
  EP_CHECK(provided, "kernel package {} does not provide the layer {}", name, kGatedMlp);
  EP_CHECK(std::ranges::find(provided->ops, op) != provided->ops.end(),
           "kernel package {}: its {} has no activation {}; it has {}", name, kGatedMlp, act_name(layer.act),
           fmt::join(provided->ops, ", "));
  const ProvidedOp& provided_op = *manifest.op(op);
  EP_CHECK(std::ranges::find(provided_op.dtypes, weight.dtype()) != provided_op.dtypes.end(),
           "kernel package {}: its {} has no kernel for {}", name, op, dtype_name(weight.dtype()));
  const EpKernel* kernel = loaded.kernel(op, weight.dtype());
  EP_CHECK(
      kernel,
      "kernel package {}: the library of variant {} has no kernel for {} of {}, though its manifest says so",
      name, loaded.variant->name, op, dtype_name(weight.dtype()));
  return package_kernel({.reference = reference,
                         .build = manifest.build,
                         .variant = loaded.variant->name,
                         .op = provided_op,
                         .dtype = weight.dtype(),
                         .device = weight.device(),
                         .allow_fallback = options.allow_fallback},
                        kernel);
}

}  // namespace
}  // namespace package

void use_kernels(nn::GatedMlp& layer, const KernelMap& kernels, const UseKernelsOptions& options) {
  const package::PackageKernel* found = nullptr;
  for (const auto& [kind, package_name] : kernels) {
    EP_CHECK(kind == package::kGatedMlp, "use_kernels: the model has no layer '{}'; it has {}", kind,
             package::kGatedMlp);
    const package::Reference reference = package::parse_reference(package_name);
    try {
      found = &package::kernel_for(layer, reference, options);
    } catch (const Error& error) {
      if (!options.allow_fallback) throw;
      found = &package::package_kernel({.reference = reference,
                                        .op = {.name = package::abi_op_name(layer.act)},
                                        .device = layer.gate_proj.weight.device(),
                                        .allow_fallback = true,
                                        .missing = error.what()},
                                       nullptr);
    }
  }
  if (found) layer.act_mul_kernel = found;
}

void restore_kernels(nn::GatedMlp& layer) { layer.act_mul_kernel = nullptr; }

std::vector<KernelStats> kernel_stats() { return package::all_kernel_stats(); }

}  // namespace epilogue
