#include "tensor/storage.h"

#include <algorithm>
#include <utility>

namespace epilogue {
namespace detail {

StorageRef::StorageRef(const StorageRef& other) : storage_(other.storage_) {
  if (storage_) storage_->references.fetch_add(1, std::memory_order_relaxed);
}

StorageRef& StorageRef::operator=(StorageRef other) noexcept {
  std::swap(storage_, other.storage_);
  return *this;
}

StorageRef::~StorageRef() {
  if (storage_ && storage_->references.fetch_sub(1, std::memory_order_acq_rel) == 1)
    storage_->release(storage_);
}

}  // namespace detail

std::shared_ptr<const void> Storage::find_derived(const DerivedKey& key) {
  const uint64_t now = version.load(std::memory_order_acquire);
  const std::lock_guard lock(derived_mutex_);
  std::erase_if(derived_, [now](const Derived& d) { return d.version != now; });
  const auto found =
      std::find_if(derived_.begin(), derived_.end(), [&key](const Derived& d) { return d.key == key; });
  return found == derived_.end() ? nullptr : found->value;
}

void Storage::keep_derived(Derived made) {
  constexpr size_t kFew = 16;  // kept whatever they take: small ones are mostly padding
  const std::lock_guard lock(derived_mutex_);
  size_t all = made.bytes;
  for (const Derived& d : derived_) {
    if (d.key == made.key && d.version == made.version) return;
    all += d.bytes;
  }
  auto oldest = derived_.begin();
  for (; all > 4 * bytes && derived_.end() - oldest >= static_cast<std::ptrdiff_t>(kFew); ++oldest)
    all -= oldest->bytes;
  derived_.erase(derived_.begin(), oldest);
  derived_.push_back(std::move(made));
}

bool same_view(const Tensor& a, const Tensor& b) {
  return a.shares_storage_with(b) && a.offset() == b.offset() && a.dtype() == b.dtype() &&
         a.sizes() == b.sizes() && a.strides() == b.strides();
}

detail::StorageRef storage_over(void* data, size_t bytes, Device device, std::function<void(void*)> deleter) {
  struct Wrapped : Storage {
    std::function<void(void*)> deleter;
  };
  auto* storage = new Wrapped;
  storage->data = data;
  storage->bytes = bytes;
  storage->device = device;
  storage->deleter = std::move(deleter);
  storage->release = [](Storage* s) {
    const std::unique_ptr<Wrapped> wrapped(static_cast<Wrapped*>(s));
    if (wrapped->deleter) wrapped->deleter(wrapped->data);
  };
  return detail::StorageRef(storage);
}

}  // namespace epilogue
