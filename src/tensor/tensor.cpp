#include "epilogue/tensor.h"

#include "base/check.h"
#include "tensor/storage.h"
#include "tensor/view.h"

namespace epilogue {
namespace {

int axis(const Tensor& tensor, int dim) {
  EP_CHECK(dim >= -tensor.dim() && dim < tensor.dim(), "dimension {} is out of range for sizes {}", dim,
           tensor.sizes().to_string());
  return dim < 0 ? dim + tensor.dim() : dim;
}

}  // namespace

Tensor Tensor::over(detail::StorageRef storage, DType dtype, const Dims& sizes, const Dims& strides,
                    int64_t offset) {
  Tensor tensor;
  tensor.storage_ = std::move(storage);
  tensor.dtype_ = dtype;
  tensor.sizes_ = sizes;
  tensor.strides_ = strides;
  tensor.offset_ = offset;
  return tensor;
}

Device Tensor::device() const { return defined() ? storage()->device : Device{}; }
int64_t Tensor::size(int dim) const { return sizes_[axis(*this, dim)]; }
int64_t Tensor::stride(int dim) const { return strides_[axis(*this, dim)]; }

// Sizes were checked when the tensor was made, so the product cannot overflow.
int64_t Tensor::numel() const {
  int64_t count = 1;
  for (const int64_t size : sizes_) count *= size;
  return count;
}

bool Tensor::is_contiguous() const { return epilogue::is_contiguous(sizes_, strides_); }

const void* Tensor::data() const {
  EP_CHECK(defined(), "an undefined tensor has no data");
  EP_CHECK(!storage()->captured,
           "compile: the function reads a tensor's value ({} {}) while its graph is captured, where there is "
           "none; "
           "return the tensor and read it after the call, or leave that part out of compile()",
           dtype_name(dtype_), sizes_.to_string());
  return static_cast<const std::byte*>(storage()->data) + static_cast<size_t>(offset_) * dtype_size(dtype_);
}

void* Tensor::mutable_data() {
  EP_CHECK(defined(), "an undefined tensor has no data");
  EP_CHECK(
      !storage()->captured,
      "compile: the function writes into a tensor ({} {}) whose graph is captured; make a new tensor instead",
      dtype_name(dtype_), sizes_.to_string());
  storage()->version.fetch_add(1, std::memory_order_acq_rel);
  return const_cast<void*>(data());
}

uint64_t Tensor::version() const {
  return defined() ? storage()->version.load(std::memory_order_acquire) : 0;
}

Tensor& Tensor::set_parameter(bool parameter) {
  EP_CHECK(defined(), "an undefined tensor cannot be a parameter");
  storage()->parameter.store(parameter, std::memory_order_relaxed);
  return *this;
}

bool Tensor::is_parameter() const {
  return defined() && storage()->parameter.load(std::memory_order_relaxed);
}

void Tensor::check_element_size(size_t size) const {
  EP_CHECK(size == dtype_size(dtype_), "elements of {} take {} bytes, the type asked for takes {}",
           dtype_name(dtype_), dtype_size(dtype_), size);
}

Tensor from_blob(void* data, const Dims& sizes, TensorOptions options, std::function<void(void*)> deleter,
                 const Dims& strides) {
  const int64_t numel = numel_of(sizes);
  EP_CHECK(data != nullptr || numel == 0, "from_blob: no memory for sizes {}", sizes.to_string());
  const Layout layout =
      view_as_strided(sizes, strides.empty() ? contiguous_strides(sizes) : strides, 0, INT64_MAX);
  int64_t elements = numel > 0 ? 1 : 0;
  for (int d = 0; numel > 0 && d < sizes.size(); ++d) elements += (sizes[d] - 1) * layout.strides[d];
  const size_t bytes = static_cast<size_t>(elements) * dtype_size(options.dtype);
  return Tensor::over(storage_over(data, bytes, options.device, std::move(deleter)), options.dtype,
                      layout.sizes, layout.strides, 0);
}

}  // namespace epilogue
