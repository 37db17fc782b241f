// What a plan was made for, checked before each call in one pass.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "epilogue/tensor.h"

namespace epilogue::compiler {

class Guards {
 public:
  // `watched` are the places of tensors whose identity matters. With `exact_offsets` an input's place in its
  // storage does, too, and how far that reaches.
  Guards(std::span<const Tensor> inputs, std::span<const Tensor* const> watched, bool exact_offsets);

  bool hold(std::span<const Tensor> inputs, std::span<const Tensor* const> watched) const;
  // Whether every watched tensor still is the one it was. Those that were are kept alive by the guards.
  bool same_watched(std::span<const Tensor* const> watched) const;
  // The first guard that does not hold, e.g. "input 0: dtype f32 became bf16"; "" when all hold or only sizes
  // differ. Requires inputs that are defined.
  std::string what_changed(std::span<const Tensor> inputs, std::span<const Tensor* const> watched) const;

 private:
  struct Input {
    Dims sizes, strides;
    int64_t offset = 0;
    size_t storage_bytes = 0;
    Device device{};
    DType dtype = DType::f32;
    bool contiguous = false;
    bool aligned = false;  // to 16 bytes, as vector accesses need
  };
  enum class Fact : uint8_t {
    none,
    count,
    dtype,
    device,
    dims,
    contiguity,
    strides,
    alignment,
    place,
    watched
  };
  struct Difference {
    Fact fact = Fact::none;
    size_t at = 0;  // which input or watched tensor
  };

  bool same_sizes(std::span<const Tensor> inputs) const;
  Fact difference(const Input& expected, const Tensor& found) const;
  // In all but sizes: what hold() compares and what_changed() tells.
  Difference first_difference(std::span<const Tensor> inputs, std::span<const Tensor* const> watched) const;

  std::vector<Input> inputs_;
  std::vector<Tensor> watched_;
  bool exact_offsets_;
};

}  // namespace epilogue::compiler
