// Our tensors as DLPack's.
#pragma once

#include "epilogue/kernel_abi.h"
#include "epilogue/tensor.h"

namespace epilogue::package {

inline DLDataType dl_type(DType dtype) {
  const auto bits = static_cast<uint8_t>(8 * dtype_size(dtype));
  const bool whole = dtype == DType::i32 || dtype == DType::i64;
  return {static_cast<uint8_t>(whole ? kDLInt : dtype == DType::bf16 ? kDLBfloat : kDLFloat), bits, 1};
}

// Borrows the tensor's sizes and strides: it must not outlive it. `data` is the first element.
inline DLTensor dl_tensor(const Tensor& tensor, void* data) {
  const Device device = tensor.device();
  return {.data = data,
          .device = {device.type == DeviceType::cuda ? kDLCUDA : kDLCPU, device.index},
          .ndim = tensor.dim(),
          .dtype = dl_type(tensor.dtype()),
          .shape = const_cast<int64_t*>(tensor.sizes().begin()),
          .strides = const_cast<int64_t*>(tensor.strides().begin()),
          .byte_offset = 0};
}

}  // namespace epilogue::package
