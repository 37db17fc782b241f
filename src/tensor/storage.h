// The memory under tensors: reference-counted, owned by whoever allocated it, with a version that writes
// raise.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "epilogue/tensor.h"

namespace epilogue {

// Which view of a storage something was made of, and what: the maker's numbers.
using DerivedKey = std::array<int64_t, 6>;

// Something computed from a storage's contents (a packed weight), kept until the contents change or the
// storage dies.
struct Derived {
  DerivedKey key{};
  uint64_t version = 0;  // of the contents it was made from
  size_t bytes = 0;
  std::shared_ptr<const void> value;
};

struct Storage {
  void* data = nullptr;
  size_t bytes = 0;
  Device device{};
  // Runs when the last reference goes; frees `data` and the Storage itself.
  void (*release)(Storage* storage) = nullptr;

  std::atomic<int64_t> references{1};
  std::atomic<uint64_t> version{0};
  std::atomic<bool> parameter{false};
  bool captured = false;  // stands for a value that a graph being captured will compute: there is no data

  // The value made under `key` from the present contents, or null. Values of older versions are dropped.
  std::shared_ptr<const void> find_derived(const DerivedKey& key);
  // Keeps what was made unless another thread has kept one under the same key and version. Of many, the
  // latest that together take four times the storage's bytes: each of its parts, in a wider dtype and in two
  // forms.
  void keep_derived(Derived made);

 private:
  std::mutex derived_mutex_;
  std::vector<Derived> derived_;
};

// Whether both show the same elements of one storage in the same order, as the same dtype. Two undefined ones
// do.
bool same_view(const Tensor& a, const Tensor& b);

// A storage over the caller's memory; `deleter` may be empty.
detail::StorageRef storage_over(void* data, size_t bytes, Device device, std::function<void(void*)> deleter);

}  // namespace epilogue
