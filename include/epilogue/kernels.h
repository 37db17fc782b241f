// Kernel packages in a model: prebuilt kernels, pinned by version and verified at every load, in place of the
// built-in ones. Nothing here fetches anything; `epilogue kernels add` does, once.
#pragma once

#include <ranges>
#include <string>
#include <utility>
#include <vector>

#include "epilogue/nn.h"

namespace epilogue {

// Which package implements which kind of layer: {{"GatedMlp", "epilogue/geglu@1"}}.
using KernelMap = std::vector<std::pair<std::string, std::string>>;

struct UseKernelsOptions {
  // Otherwise a layer that cannot have the package fails with the reason. With it the built-in kernel runs
  // then, and the trace and kernel_stats() tell so.
  bool allow_fallback = false;
  std::string lock_file = "kernels.lock";  // pins the packages where it exists; "": none is looked at
};

// Verifies and loads the packages of the map and lets the layer run their kernels from the next call on, in
// every mode but fused. Parameters stay as they are. Throws Error with the reason, and then the layer is as
// it was. Not to be called while the layer runs.
void use_kernels(nn::GatedMlp& layer, const KernelMap& kernels, const UseKernelsOptions& options = {});

// Undoes it: the built-in kernels run again, to the same bits as before.
void restore_kernels(nn::GatedMlp& layer);

// A model is a layer or a range of models.
template <std::ranges::range Layers>
void use_kernels(Layers& layers, const KernelMap& kernels, const UseKernelsOptions& options = {}) {
  for (auto& layer : layers) use_kernels(layer, kernels, options);
}
template <std::ranges::range Layers>
void restore_kernels(Layers& layers) {
  for (auto& layer : layers) restore_kernels(layer);
}

// What ran, since the process began, for each kernel that a layer was given.
struct KernelStats {
  std::string package;  // "epilogue/geglu@1"
  std::string build, variant, op, kernel;
  int64_t calls = 0;      // that the package's kernel ran
  int64_t fallbacks = 0;  // that a built-in kernel ran in its place
  std::string reason;     // of the last fallback
};
std::vector<KernelStats> kernel_stats();

}  // namespace epilogue
