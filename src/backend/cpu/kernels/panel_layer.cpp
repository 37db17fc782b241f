#include "backend/cpu/kernels/panel_layer.h"

#include <cstring>

#include "backend/cpu/allocator.h"
#include "backend/cpu/cpu_info.h"
#include "backend/cpu/kernels/copy.h"
#include "tensor/storage.h"

namespace epilogue::cpu {

RowBuffer::RowBuffer(int64_t rows, int64_t columns)
    : storage(Allocator::instance().allocate(static_cast<size_t>(rows * columns) * sizeof(float))) {
  data = static_cast<float*>(storage.get()->data);
  stride = columns;
}

Rows InputRows::read(Span rows, const RowBuffer& copy) const {
  auto* from = static_cast<std::byte*>(const_cast<void*>(data)) +
               rows.begin * row_stride * static_cast<int64_t>(dtype_size(dtype));
  if (!needs_copy()) return {reinterpret_cast<float*>(from), row_stride};
  const Tensor as_given = from_blob(from, {rows.size(), width}, {dtype}, {}, {row_stride, column_stride});
  Tensor wide = Tensor::over(copy.storage, DType::f32, {rows.size(), width}, {copy.stride, 1}, 0);
  const Attrs none;
  run_copy({Op::to, none, std::span(&as_given, 1), wide});
  return copy;
}

Rows OutputRows::place(int64_t first, const RowBuffer& copy) const {
  return needs_copy() ? Rows(copy) : Rows{static_cast<float*>(data) + first * width, width};
}

void OutputRows::store(Span rows, const Rows& from) const {
  if (!needs_copy()) return;
  auto* to = static_cast<std::byte*>(data) + rows.begin * width * static_cast<int64_t>(dtype_size(dtype));
  copy_kernel(DType::f32, dtype).row(to, from.data, nullptr, rows.size() * width);
}

PanelLayer::PanelLayer(const WeightView& weight, const Tensor* bias_given) : kept(weight_in_panels(weight)) {
  panels = kept->data();
  dtype = weight.tensor->dtype();
  n = weight.n;
  k = weight.k;
  if (!bias_given) return;
  bias = static_cast<const float*>(bias_given->data());
  if (dtype == DType::f32) return;
  bias_copy = RowBuffer(1, n);
  copy_kernel(dtype, DType::f32).row(bias_copy.data, bias_given->data(), nullptr, n);
  bias = bias_copy.data;
}

const char* refuse_panels(DType dtype) {
  if (dtype == DType::f64) return "its products are computed in f32";
  if (panel_shape().lanes < 8) return "without AVX2 oneDNN's SSE4.1 is quicker";
  if (dtype == DType::bf16 && has_native_bf16()) return "this CPU multiplies bf16 itself, by oneDNN";
  return packs_weights() ? nullptr : "weights are not to be packed";
}

void multiply_part(const Rows& x, int64_t rows, const PanelLayer& layer, Span depth, Span columns,
                   const Rows& to, const void* next) {
  if (depth.begin == 0 && layer.bias)
    for (int64_t r = 0; r < rows; ++r)
      std::memcpy(to.at(r), layer.bias + columns.begin, static_cast<size_t>(columns.size()) * sizeof(float));
  multiply_panels({.rows = x.data,
                   .row_stride = x.stride,
                   .row_count = rows,
                   .weight = layer,
                   .depth = depth,
                   .columns = columns,
                   .c = to.data,
                   .c_stride = to.stride,
                   .accumulate = depth.begin > 0 || layer.bias,
                   .next = next});
}

void multiply_columns(const Rows& x, int64_t rows, const PanelLayer& layer, Span columns, const Rows& to,
                      const void* next) {
  const int64_t parts = (layer.k + kPanelDepth - 1) / kPanelDepth;
  for (int64_t i = 0; i < parts; ++i) {
    const Span depth{layer.k * i / parts, layer.k * (i + 1) / parts};
    multiply_part(x.from_column(depth.begin), rows, layer, depth, columns, to,
                  depth.end < layer.k ? layer.at(columns.begin, depth.end) : next);
  }
}

int multiply_by_columns(const Rows& x, int64_t rows, const PanelLayer& layer, const Rows& to, int threads) {
  return share_columns(layer.n, threads, [&](Span columns) {
    const void* next = layer.at(columns.end < layer.n ? columns.end : 0, 0);
    multiply_columns(x, rows, layer, columns, to.from_column(columns.begin), next);
  });
}

}  // namespace epilogue::cpu
