#include "compile/stacked.h"

#include <algorithm>

#include "tensor/storage.h"

namespace epilogue::compiler {
namespace {

Tensor stack(const graph::Parts& parts) {
  Dims sizes = parts[0].sizes();
  for (size_t i = 1; i < parts.size(); ++i) sizes[0] += parts[i].size(0);
  Tensor whole = empty(sizes, {parts[0].dtype(), parts[0].device()});
  int64_t row = 0;
  for (const Tensor& part : parts) {
    whole.slice(0, row, row + part.size(0)).copy_(part);
    row += part.size(0);
  }
  return whole.set_parameter();
}

}  // namespace

Tensor StackedConstant::get() {
  const std::lock_guard lock(mutex_);
  if (std::ranges::equal(parts_, versions_, {}, &Tensor::version)) return whole_;
  versions_.clear();
  for (const Tensor& part : parts_) versions_.push_back(part.version());
  whole_ = stack(parts_);
  ++made_;
  return whole_;
}

int64_t StackedConstant::made() const {
  const std::lock_guard lock(mutex_);
  return made_;
}

std::shared_ptr<StackedConstant> StackedConstants::of(const graph::Parts& parts) {
  const std::lock_guard lock(mutex_);
  std::erase_if(known_, [](const auto& one) { return one.expired(); });
  for (const auto& one : known_)
    if (auto known = one.lock(); known && std::ranges::equal(known->parts(), parts, same_view)) return known;
  auto made = std::make_shared<StackedConstant>(parts);
  known_.push_back(made);
  return made;
}

}  // namespace epilogue::compiler
