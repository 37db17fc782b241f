// The iteration that pointwise and copy kernels of every backend share: any strides and broadcasts, brought
// to the fewest dimensions.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "epilogue/tensor.h"

namespace epilogue {

// Where an operand begins and how many bytes apart its neighbours lie along each dimension (0: broadcast).
struct LoopOperand {
  char* data = nullptr;
  int element_size = 0;
  std::array<int64_t, kMaxDims> strides{};
};

// Brings dimensions, given innermost first, to their minimal form: none of size 1, none that two neighbours
// could share, the first operand's smallest stride first. Returns how many are left, at least one.
int collapse_dims(int dims, std::array<int64_t, kMaxDims>& sizes, std::span<LoopOperand> operands);

// Operand 0 is the output; its elements are distinct. Dimensions are innermost first, and minimal: none of
// size 1, none that two neighbours could share, the output's smallest stride first.
struct StridedLoop {
  static constexpr int kMaxOperands = 3;

  int dims = 0, operands = 0;
  std::array<int64_t, kMaxDims> sizes{};
  std::array<LoopOperand, kMaxOperands> operand{};

  // The inputs broadcast to the output's shape. Counts as a write to the output.
  static StridedLoop over(Tensor& output, std::span<const Tensor> inputs);
  // Brings the dimensions, given innermost first, to their minimal form.
  void collapse();
  int64_t numel() const {
    int64_t count = 1;
    for (int d = 0; d < dims; ++d) count *= sizes[static_cast<size_t>(d)];
    return count;
  }
};

}  // namespace epilogue
