// Golden files: a layer's inputs, weights and results made by PyTorch, and how far ours are from them.
#pragma once

#include <string>

#include "epilogue/kernels.h"
#include "epilogue/nn.h"

namespace epilogue::cli {

struct GoldenRun {
  nn::Mode mode = nn::Mode::eager;
  Device device{};
  KernelMap kernels;  // for the layers of the file
};

struct Verified {
  std::string file, mode;
  std::string note;  // mode_note
  double max_error = 0, allowed = 0;
  bool passed() const { return max_error <= allowed; }  // false for NaN
};

// The largest absolute difference of two tensors of one shape; NaN where one holds NaN.
double largest_difference(const Tensor& a, const Tensor& b);

// Runs the layer of the file. Throws Error when it is no golden file.
Verified verify_golden(const std::string& path, const GoldenRun& run);

}  // namespace epilogue::cli
