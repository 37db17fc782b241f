// What a plan was made for, checked before each call in one pass.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "epilogue/tensor.h"

namespace epilogue::compiler {

class Guards {
 public:
  // `watched` are the places of tensors whose identity matters. With `exact_offsets` an input's offset does,
  // too.
  Guards(std::span<const Tensor> inputs, std::span<const Tensor* const> watched, bool exact_offsets);

  bool hold(std::span<const Tensor> inputs, std::span<const Tensor* const> watched) const;
  // The first guard that does not, e.g. "input 0: dtype f32 became bf16"; "" when all hold or only sizes
  // differ.
  std::string what_changed(std::span<const Tensor> inputs, std::span<const Tensor* const> watched) const;

 private:
  struct Input {
    Dims sizes, strides;
    int64_t offset = 0;
    Device device{};
    DType dtype = DType::f32;
    bool aligned = false;  // to 16 bytes, as vector accesses need
  };
  struct Watched {
    const Storage* storage = nullptr;
    detail::StorageRef kept;  // so that no other tensor takes its address
    int64_t offset = 0;
    Dims sizes;
  };
  std::vector<Input> inputs_;
  std::vector<Watched> watched_;
  bool exact_offsets_;
};

}  // namespace epilogue::compiler
