#include "compile/guards.h"

#include <algorithm>

#include <fmt/format.h>

#include "tensor/storage.h"

namespace epilogue::compiler {
namespace {

bool is_aligned(const Tensor& tensor) {
  const auto at = reinterpret_cast<uintptr_t>(tensor.storage()->data) +
                  static_cast<size_t>(tensor.offset()) * dtype_size(tensor.dtype());
  return at % 16 == 0;
}

std::string was_and_is(size_t input, bool was, const char* what) {
  return fmt::format("input {}: was {}{} and is {}now", input, was ? "" : "not ", what, was ? "not " : "");
}

}  // namespace

Guards::Guards(std::span<const Tensor> inputs, std::span<const Tensor* const> watched, bool exact_offsets)
    : exact_offsets_(exact_offsets) {
  for (const Tensor& input : inputs)
    inputs_.push_back({.sizes = input.sizes(),
                       .strides = input.strides(),
                       .offset = input.offset(),
                       .storage_bytes = input.storage()->bytes,
                       .device = input.device(),
                       .dtype = input.dtype(),
                       .contiguous = input.is_contiguous(),
                       .aligned = is_aligned(input)});
  for (const Tensor* tensor : watched) watched_.push_back(*tensor);
}

// Called with other sizes most often, so that these are compared first.
bool Guards::hold(std::span<const Tensor> inputs, std::span<const Tensor* const> watched) const {
  return same_sizes(inputs) && first_difference(inputs, watched).fact == Fact::none;
}

bool Guards::same_sizes(std::span<const Tensor> inputs) const {
  return std::ranges::equal(inputs, inputs_, [](const Tensor& found, const Input& expected) {
    return found.defined() && found.sizes() == expected.sizes;
  });
}

bool Guards::same_watched(std::span<const Tensor* const> watched) const {
  return std::ranges::equal(watched, watched_,
                            [](const Tensor* a, const Tensor& b) { return same_view(*a, b); });
}

Guards::Fact Guards::difference(const Input& expected, const Tensor& found) const {
  if (found.dtype() != expected.dtype) return Fact::dtype;
  if (found.device() != expected.device) return Fact::device;
  if (found.dim() != expected.sizes.size()) return Fact::dims;
  const bool same_sizes = found.sizes() == expected.sizes;
  // Of the same sizes, equal strides are as contiguous.
  if (!(same_sizes && found.strides() == expected.strides)) {
    if (found.is_contiguous() != expected.contiguous) return Fact::contiguity;
    if (same_sizes) return Fact::strides;
  }
  if (is_aligned(found) != expected.aligned) return Fact::alignment;
  const bool there = found.offset() == expected.offset && found.storage()->bytes >= expected.storage_bytes;
  return exact_offsets_ && !there ? Fact::place : Fact::none;
}

Guards::Difference Guards::first_difference(std::span<const Tensor> inputs,
                                            std::span<const Tensor* const> watched) const {
  if (inputs.size() != inputs_.size()) return {Fact::count};
  for (size_t i = 0; i < inputs.size(); ++i)
    if (const Fact fact = difference(inputs_[i], inputs[i]); fact != Fact::none) return {fact, i};
  for (size_t i = 0; i < watched.size(); ++i)
    if (!same_view(*watched[i], watched_[i])) return {Fact::watched, i};
  return {};
}

std::string Guards::what_changed(std::span<const Tensor> inputs,
                                 std::span<const Tensor* const> watched) const {
  const auto [fact, at] = first_difference(inputs, watched);
  switch (fact) {
    case Fact::none:
      return "";
    case Fact::count:
      return fmt::format("{} inputs became {}", inputs_.size(), inputs.size());
    case Fact::dtype:
      return fmt::format("input {}: dtype {} became {}", at, dtype_name(inputs_[at].dtype),
                         dtype_name(inputs[at].dtype()));
    case Fact::device:
      return fmt::format("input {}: device {} became {}", at, device_name(inputs_[at].device),
                         device_name(inputs[at].device()));
    case Fact::dims:
      return fmt::format("input {}: {} dimensions became {}", at, inputs_[at].sizes.size(), inputs[at].dim());
    case Fact::contiguity:
      return was_and_is(at, inputs_[at].contiguous, "contiguous");
    case Fact::strides:
      return fmt::format("input {}: strides {} became {}", at, inputs_[at].strides.to_string(),
                         inputs[at].strides().to_string());
    case Fact::alignment:
      return was_and_is(at, inputs_[at].aligned, "aligned to 16 bytes");
    case Fact::place:
      return fmt::format(
          "input {}: as_strided was asked of it, and it lies elsewhere in its storage or that is smaller",
          at);
    case Fact::watched:
      return fmt::format("the watched tensor {} was replaced by another", at);
  }
  return "";
}

}  // namespace epilogue::compiler
