#include "compile/guards.h"

#include <fmt/format.h>

#include "tensor/storage.h"

namespace epilogue::compiler {
namespace {

bool is_aligned(const Tensor& tensor) {
  if (!tensor.defined()) return true;
  const auto at = reinterpret_cast<uintptr_t>(tensor.storage()->data) +
                  static_cast<size_t>(tensor.offset()) * dtype_size(tensor.dtype());
  return at % 16 == 0;
}

}  // namespace

Guards::Guards(std::span<const Tensor> inputs, std::span<const Tensor* const> watched, bool exact_offsets)
    : exact_offsets_(exact_offsets) {
  for (const Tensor& input : inputs)
    inputs_.push_back(
        {input.sizes(), input.strides(), input.offset(), input.device(), input.dtype(), is_aligned(input)});
  for (const Tensor* tensor : watched)
    watched_.push_back({tensor->storage(), tensor->storage_ref(), tensor->offset(), tensor->sizes()});
}

bool Guards::hold(std::span<const Tensor> inputs, std::span<const Tensor* const> watched) const {
  if (inputs.size() != inputs_.size()) return false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Input& expected = inputs_[i];
    const Tensor& found = inputs[i];
    if (!found.defined() || found.dtype() != expected.dtype || !(found.device() == expected.device) ||
        !(found.sizes() == expected.sizes) || !(found.strides() == expected.strides) ||
        is_aligned(found) != expected.aligned || (exact_offsets_ && found.offset() != expected.offset))
      return false;
  }
  for (size_t i = 0; i < watched.size(); ++i)
    if (watched[i]->storage() != watched_[i].storage || watched[i]->offset() != watched_[i].offset ||
        !(watched[i]->sizes() == watched_[i].sizes))
      return false;
  return true;
}

std::string Guards::what_changed(std::span<const Tensor> inputs,
                                 std::span<const Tensor* const> watched) const {
  if (inputs.size() != inputs_.size())
    return fmt::format("{} inputs became {}", inputs_.size(), inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Input& old = inputs_[i];
    const Tensor& now = inputs[i];
    const bool contiguous = contiguous_strides(old.sizes) == old.strides;
    if (now.dtype() != old.dtype)
      return fmt::format("input {}: dtype {} became {}", i, dtype_name(old.dtype), dtype_name(now.dtype()));
    if (!(now.device() == old.device))
      return fmt::format("input {}: device {} became {}", i, device_name(old.device),
                         device_name(now.device()));
    if (now.dim() != old.sizes.size())
      return fmt::format("input {}: {} dimensions became {}", i, old.sizes.size(), now.dim());
    if (now.is_contiguous() != contiguous)
      return fmt::format("input {}: was {}contiguous and is {}now", i, contiguous ? "" : "not ",
                         contiguous ? "not " : "");
    if (is_aligned(now) != old.aligned)
      return fmt::format("input {}: was {}aligned to 16 bytes and is {}now", i, old.aligned ? "" : "not ",
                         old.aligned ? "not " : "");
  }
  for (size_t i = 0; i < watched.size(); ++i)
    if (watched[i]->storage() != watched_[i].storage)
      return fmt::format("the watched tensor {} was replaced by another", i);
  return "";
}

}  // namespace epilogue::compiler
