// Layers over weights in panels: what products of panel_product.h need around them. Rows are brought to f32,
// the depth is cut for the caches, rows or columns are shared among threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>

#include "backend/cpu/kernels/panel_product.h"
#include "backend/cpu/packed_weight.h"
#include "base/threads.h"

namespace epilogue::cpu {

// Rows of f32, their elements side by side.
struct Rows {
  float* data = nullptr;
  int64_t stride = 0;

  float* at(int64_t row, int64_t column = 0) const { return data + row * stride + column; }
  Rows from_column(int64_t column) const { return {data + column, stride}; }
};

// Memory for such rows, for as long as it lives.
struct RowBuffer : Rows {
  RowBuffer() = default;
  RowBuffer(int64_t rows, int64_t columns);

  detail::StorageRef storage;
};

// The rows of a product's left side as the caller has them: of f32 or 16-bit floats, with any strides.
struct InputRows {
  const void* data = nullptr;
  DType dtype = DType::f32;
  int64_t count = 0, width = 0;
  int64_t row_stride = 0, column_stride = 1;  // in elements

  bool needs_copy() const { return dtype != DType::f32 || (column_stride != 1 && width > 1); }
  RowBuffer buffer(int64_t rows) const { return needs_copy() ? RowBuffer(rows, width) : RowBuffer(); }
  // Where they are, or copied to `copy`, a buffer() of enough rows.
  Rows read(Span rows, const RowBuffer& copy) const;
};

// Where results go: contiguous, f32 or 16-bit floats, which are rounded to once.
struct OutputRows {
  void* data = nullptr;
  DType dtype = DType::f32;
  int64_t width = 0;

  bool needs_copy() const { return dtype != DType::f32; }
  RowBuffer buffer(int64_t rows) const { return needs_copy() ? RowBuffer(rows, width) : RowBuffer(); }
  // Rows to write f32 to: their place, or `copy`.
  Rows place(int64_t first, const RowBuffer& copy) const;
  void store(Span rows, const Rows& from) const;  // no work where they are in their place
};

// A weight with its bias in f32, or without.
struct PanelLayer : PanelWeight {
  PanelLayer() = default;
  PanelLayer(const WeightView& weight, const Tensor* bias);  // a bias is contiguous and of the weight's dtype

  std::shared_ptr<const PackedWeight> kept;
  const float* bias = nullptr;
  RowBuffer bias_copy;
};

// Null when products over such weights run here, otherwise the reason.
const char* refuse_panels(DType dtype);

// Columns of rows times the weight plus its bias, for some of the depth: the part that begins it starts from
// the bias, the others add to what earlier parts have left. `next` is PanelProduct's.
void multiply_part(const Rows& x, int64_t rows, const PanelLayer& layer, Span depth, Span columns,
                   const Rows& to, const void* next);
// The same for the whole depth, in as many parts as the caches want.
void multiply_columns(const Rows& x, int64_t rows, const PanelLayer& layer, Span columns, const Rows& to,
                      const void* next);

// A thread with fewer rows than this had better share the weights than the rows.
inline constexpr int64_t kFewRows = 32;
// A block's rows of x, and of what is made of them, share L2 with the panels that pass; columns are taken
// some panels at a time. A gated MLP of 768/3072 in f32 on an Ice Lake core (1.25 MB of L2) reached 89% of
// the FMA peak with 108 rows and 16 panels; 72 to 144 rows and 8 to 24 panels 83% to 91%, 216 rows 85%.
inline constexpr int64_t kBlockRows = 108;
inline constexpr int64_t kSlicePanels = 16;

// Calls body(span) over `columns` of a weight on so many threads, each span some whole panels. Returns how
// many threads that were.
template <class Body>
int share_columns(int64_t columns, int threads, const Body& body) {
  const int64_t panel = panel_shape().columns, panels = (columns + panel - 1) / panel;
  return parallel_for(panels, (panels + threads - 1) / threads, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; i += kSlicePanels)
      body(Span{i * panel, std::min(std::min(i + kSlicePanels, last) * panel, columns)});
  });
}

// All columns, shared among so many threads; returns how many it were.
int multiply_by_columns(const Rows& x, int64_t rows, const PanelLayer& layer, const Rows& to, int threads);

// Calls body(longest, next) on so many threads: each takes spans of rows, none longer than `longest` (at most
// `most`), from next() until it gives an empty one. Where there are many, spans grow shorter towards the end,
// so that a thread which was disturbed is not waited for long.
template <class Body>
int share_rows(int64_t rows, int64_t most, int threads, const Body& body) {
  const int64_t each = (rows + most * threads - 1) / (most * threads), blocks = each * threads;
  const int64_t tile = panel_shape().tile_rows;
  const bool many = each > 2 && threads > 1 && most > 4 * tile;
  const int64_t longest = many ? most : (rows + blocks - 1) / blocks, least = many ? 4 * tile : longest;
  std::atomic<int64_t> taken{0};
  const auto next = [&] {
    int64_t begin = taken.load(std::memory_order_relaxed), end = 0;
    do {
      const int64_t left = rows - begin;
      end = begin + std::min(left, std::clamp(left / (2 * threads) / tile * tile, least, longest));
    } while (!taken.compare_exchange_weak(begin, end, std::memory_order_relaxed));
    return Span{begin, end};
  };
  return parallel_for(threads, 1, [&](int64_t, int64_t) { body(longest, next); });
}

}  // namespace epilogue::cpu
