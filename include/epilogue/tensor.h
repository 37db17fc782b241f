// Tensors: a shape, strides and an offset into a reference-counted storage. Views share the storage.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>

#include "epilogue/error.h"

namespace epilogue {

enum class DType : uint8_t { f32, bf16, f16, f64, i32, i64 };

size_t dtype_size(DType dtype);
const char* dtype_name(DType dtype);                      // "f32", "bf16", ...
DType dtype_from_name(const std::string& name);           // throws Error that lists the names
DType floating_dtype_from_name(const std::string& name);  // likewise, of those that a layer computes in
std::string floating_dtype_names();                       // "f32, bf16, f16, f64"
bool dtype_is_floating(DType dtype);

enum class DeviceType : uint8_t { cpu, cuda };

struct Device {
  DeviceType type = DeviceType::cpu;
  int8_t index = 0;
  bool operator==(const Device&) const = default;
};

std::string device_name(Device device);            // "cpu", "cuda:0"
Device device_from_name(const std::string& name);  // "cpu", "cuda", "cuda:1"

inline constexpr int kMaxDims = 8;

// Sizes or strides: up to kMaxDims numbers, no heap.
class Dims {
 public:
  Dims() = default;
  Dims(std::initializer_list<int64_t> values) : Dims(values.begin(), values.size()) {}
  explicit Dims(std::span<const int64_t> values) : Dims(values.data(), values.size()) {}
  Dims(const int64_t* values, size_t count);

  int size() const { return count_; }
  bool empty() const { return count_ == 0; }
  int64_t& operator[](int i) { return values_[static_cast<size_t>(i)]; }
  int64_t operator[](int i) const { return values_[static_cast<size_t>(i)]; }
  const int64_t* begin() const { return values_.data(); }
  const int64_t* end() const { return values_.data() + count_; }
  int64_t* begin() { return values_.data(); }
  int64_t* end() { return values_.data() + count_; }
  int64_t back() const { return values_[static_cast<size_t>(count_ - 1)]; }
  void push_back(int64_t value);
  void insert(int at, int64_t value);
  void erase(int at);
  bool operator==(const Dims& other) const;
  std::string to_string() const;  // "[64, 128, 768]"

 private:
  std::array<int64_t, kMaxDims> values_{};
  int count_ = 0;
};

struct Storage;  // src/tensor/storage.h

namespace detail {
// Intrusive owner of a Storage.
class StorageRef {
 public:
  StorageRef() = default;
  explicit StorageRef(Storage* adopted) : storage_(adopted) {}
  StorageRef(const StorageRef& other);
  StorageRef(StorageRef&& other) noexcept : storage_(other.storage_) { other.storage_ = nullptr; }
  StorageRef& operator=(StorageRef other) noexcept;
  ~StorageRef();
  Storage* get() const { return storage_; }

 private:
  Storage* storage_ = nullptr;
};
}  // namespace detail

// A value type: copying a Tensor copies the handle, never the data. Distinct Tensor objects may be used from
// distinct threads; writing the same elements from two threads is the caller's race.
class Tensor {
 public:
  Tensor() = default;  // undefined: the "no bias" of linear()

  bool defined() const { return storage_.get() != nullptr; }
  DType dtype() const { return dtype_; }
  Device device() const;
  int dim() const { return sizes_.size(); }
  const Dims& sizes() const { return sizes_; }
  const Dims& strides() const { return strides_; }  // in elements
  int64_t size(int dim) const;                      // negative counts from the end
  int64_t stride(int dim) const;
  int64_t offset() const { return offset_; }  // in elements, from the start of the storage
  int64_t numel() const;
  size_t nbytes() const { return static_cast<size_t>(numel()) * dtype_size(dtype_); }
  bool is_contiguous() const;
  bool shares_storage_with(const Tensor& other) const { return storage_.get() == other.storage_.get(); }

  // Reading. T must match dtype for the typed form (bf16 and f16 are read as uint16_t).
  const void* data() const;
  template <class T>
  const T* data() const {
    check_element_size(sizeof(T));
    return static_cast<const T*>(data());
  }
  // Writing: the storage's version goes up, so whatever was derived from the old contents (a packed weight, a
  // compiled constant) is dropped. Fetch the pointer again before each batch of writes.
  void* mutable_data();
  template <class T>
  T* mutable_data() {
    check_element_size(sizeof(T));
    return static_cast<T*>(mutable_data());
  }
  uint64_t version() const;

  // Marks the storage as a parameter: written rarely, read often. Backends may keep a packed copy of it.
  Tensor& set_parameter(bool parameter = true);
  bool is_parameter() const;

  // Views. They share the storage and move no data; each throws Error when it is impossible.
  Tensor t() const;  // at most 2-D
  Tensor transpose(int dim0, int dim1) const;
  Tensor permute(const Dims& order) const;
  Tensor view(const Dims& sizes) const;     // one size may be -1
  Tensor reshape(const Dims& sizes) const;  // a view where possible, otherwise a copy
  Tensor slice(int dim, int64_t start, int64_t end, int64_t step = 1) const;  // clamped, as in Python
  Tensor select(int dim, int64_t index) const;
  Tensor squeeze() const;
  Tensor squeeze(int dim) const;
  Tensor unsqueeze(int dim) const;
  Tensor expand(const Dims& sizes) const;  // -1 keeps a size
  Tensor as_strided(const Dims& sizes, const Dims& strides, int64_t offset) const;

  Tensor contiguous() const;  // itself when it is already
  Tensor to(DType dtype) const;
  Tensor to(Device device) const;
  Tensor& copy_(const Tensor& source);  // broadcasts and converts
  double item() const;                  // the one element, as double

  // For the library's own folders: a view over an existing storage.
  static Tensor over(detail::StorageRef storage, DType dtype, const Dims& sizes, const Dims& strides,
                     int64_t offset);
  Storage* storage() const { return storage_.get(); }
  const detail::StorageRef& storage_ref() const { return storage_; }

 private:
  void check_element_size(size_t size) const;

  detail::StorageRef storage_;
  int64_t offset_ = 0;
  Dims sizes_;
  Dims strides_;
  DType dtype_ = DType::f32;
};

// Row-major strides for sizes.
Dims contiguous_strides(const Dims& sizes);
// The shape both broadcast to; throws Error that names both.
Dims broadcast_shapes(const Dims& a, const Dims& b);

struct TensorOptions {
  DType dtype = DType::f32;
  Device device{};
};

Tensor empty(const Dims& sizes, TensorOptions options = {});
Tensor zeros(const Dims& sizes, TensorOptions options = {});
Tensor ones(const Dims& sizes, TensorOptions options = {});
Tensor full(const Dims& sizes, double value, TensorOptions options = {});
Tensor arange(int64_t count, TensorOptions options = {});  // 0, 1, ..., count-1
// Standard normal numbers, a function of (seed, element index) alone: the same at any thread count.
Tensor randn(const Dims& sizes, uint64_t seed, TensorOptions options = {});
// Wraps the caller's memory. `deleter` runs once, when the last view is gone; without one the caller keeps
// the memory alive. Empty strides mean contiguous.
Tensor from_blob(void* data, const Dims& sizes, TensorOptions options = {},
                 std::function<void(void*)> deleter = {}, const Dims& strides = {});

}  // namespace epilogue
