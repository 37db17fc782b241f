// Layers over weights in panels: what products of panel_product.h need around them. Rows are brought to what
// they read, the depth is cut for the caches, rows or columns are shared among threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>

#include "backend/cpu/kernels/panel_product.h"
#include "backend/cpu/kernels/strided_loop.h"
#include "backend/cpu/kernels/tile_pack.h"
#include "backend/cpu/packed_weight.h"
#include "base/threads.h"

namespace epilogue::cpu {

// Rows of f32, their elements side by side: results.
struct Rows {
  float* data = nullptr;
  int64_t stride = 0;

  float* at(int64_t row, int64_t column = 0) const { return data + row * stride + column; }
  Rows from_row(int64_t row) const { return {at(row), stride}; }
  Rows from_column(int64_t column) const { return {data + column, stride}; }
};

// Memory for such rows, for as long as it lives.
struct RowBuffer : Rows {
  RowBuffer() = default;
  RowBuffer(int64_t rows, int64_t columns);

  detail::StorageRef storage;
};

// Rows as products read them: side by side, or in tiles, of which whole ones are then asked for.
struct LeftRows {
  void* data = nullptr;
  int64_t element_bytes = 4;
  int64_t stride = 0;
  bool in_tiles = false;

  // In tiles: of a column that is a multiple of 32, since 32 of them lie side by side.
  void* at(int64_t row, int64_t column = 0) const {
    const int64_t in_tile = in_tiles ? row % kAmxRows : 0;
    const int64_t offset = in_tiles ? tile_offset(row - in_tile, column, stride) : row * stride + column;
    return static_cast<std::byte*>(data) + offset * element_bytes + in_tile * kAmxRowBytes;
  }
  LeftRows from_row(int64_t row) const { return {at(row), element_bytes, stride, in_tiles}; }
  LeftRows from_column(int64_t column) const { return {at(0, column), element_bytes, stride, in_tiles}; }
};

struct LeftBuffer : LeftRows {
  LeftBuffer() = default;
  LeftBuffer(int64_t rows, int64_t columns, const PanelWeight& weight);  // of whole steps of its depth

  detail::StorageRef storage;
};

enum class Reader { one_thread, all_threads };

// The rows of a product's left side as the caller has them: of f32 or 16-bit floats, with any strides.
struct InputRows {
  const void* data = nullptr;
  DType dtype = DType::f32;
  int64_t count = 0, width = 0;
  int64_t row_stride = 0, column_stride = 1;  // in elements
  PanelWeight weight;                         // that reads them
  // Set by read() where they are to be split and one of them is infinite or no number.
  std::atomic<bool>* not_finite = nullptr;

  bool readable() const;  // where they are
  // For copies of so many rows, where one is needed or, of a thread's own rows, worth its while.
  LeftBuffer buffer(int64_t rows, Reader reader) const;
  // Copied to `copy`, enough rows of a buffer(); where they are if it is empty.
  LeftRows read(Span rows, const LeftRows& copy) const;
};

// Where results go: contiguous, f32 or 16-bit floats, which are rounded to once.
struct OutputRows {
  OutputRows() = default;
  OutputRows(void* rows, DType type, int64_t columns);

  void* data = nullptr;
  DType dtype = DType::f32;
  int64_t width = 0;
  RowKernel narrow = nullptr;  // from f32, where they are not

  bool needs_copy() const { return dtype != DType::f32; }
  RowBuffer buffer(int64_t rows, int64_t columns) const {
    return needs_copy() ? RowBuffer(rows, columns) : RowBuffer();
  }
  void* at(int64_t row, int64_t column) const {
    return static_cast<std::byte*>(data) + (row * width + column) * static_cast<int64_t>(dtype_size(dtype));
  }
  // Rows to write f32 to: their place, or `copy`.
  Rows place(int64_t row, int64_t column, const Rows& copy) const;
  void store(Span rows, Span columns, const Rows& from) const;  // no work where they are in their place
};

// A weight with its bias in f32, or without.
struct PanelLayer : PanelWeight {
  PanelLayer() = default;
  // A bias is contiguous and of the weight's dtype.
  PanelLayer(PanelForm form, const WeightView& weight, const Tensor* bias);

  bool is_weights() const { return !kept || kept->is_weights; }
  const char* arithmetic()
      const;  // for kernels' names: "avx512_f32", "avx2_f32_from_bf16", "avx512_bf16", "amx_f32_bf16x3"

  std::shared_ptr<const PackedWeight> kept;
  const float* bias = nullptr;
  RowBuffer bias_copy;
};

// Null when products over such weights run here, otherwise the reason.
const char* refuse_panels(DType dtype);

// What attempt(form) gives in the form that such rows deserve. An attempt in parts gives nothing where it met
// a number that is not finite, and another one follows: results may lie over none of its inputs. (Sums that
// leave f32's range on the way and would come back differ: AMX adds in another order.)
template <class Attempt>
KernelRan run_in_panels(DType dtype, int64_t rows, const Attempt& attempt) {
  const PanelForm form = panel_form(dtype, rows);
  if (form == PanelForm::parts)
    if (const std::optional<KernelRan> ran = attempt(form)) return *ran;
  return *attempt(form == PanelForm::parts ? PanelForm::vectors : form);
}

// Columns of rows times the weight plus its bias, for some of the depth: the part that begins it starts from
// the bias, the others add to what earlier parts have left. `next` and `aside` are PanelProduct's.
void multiply_part(const LeftRows& x, int64_t rows, const PanelLayer& layer, Span depth, Span columns,
                   const Rows& to, const void* next, const Aside* aside = nullptr);
// The same for the whole depth, in as many parts as the caches want; the first one does what is aside.
void multiply_columns(const LeftRows& x, int64_t rows, const PanelLayer& layer, Span columns, const Rows& to,
                      const void* next, const Aside* aside = nullptr);

// The same for some rows, which `x` begins with, into y: through `copy` where y needs one.
void multiply_into(const LeftRows& x, Span rows, const PanelLayer& layer, Span columns, const OutputRows& y,
                   const Rows& copy);

// How work on some rows, at least one, is shared among threads. What each needs of memory is asked for
// before, once for all of them, and cut by row_of(thread): threads that all ask at once wait for each other
// at the allocator's lock (`fused`, bf16 by AMX, 128 rows of 768/3072 on 16 threads: a quarter of the time).
class ThreadRows {
 public:
  int64_t longest() const { return longest_; }  // of the spans of rows that a thread gets
  int64_t row_of(int thread) const { return thread * room_; }
  int64_t all_rows() const { return row_of(threads_); }

 protected:
  ThreadRows(int threads, int64_t longest, const PanelWeight& weight)
      : threads_(threads), longest_(longest), room_(weight.whole_rows(longest)) {}

  const int threads_;
  const int64_t longest_;

 private:
  const int64_t room_;  // rows
};

// Few rows and all columns of a weight.
class ColumnShares : public ThreadRows {
 public:
  ColumnShares(int64_t rows, const PanelWeight& weight, int threads);

  int64_t widest() const { return std::min(piece_, shape_.slice_panels) * shape_.columns; }

  // Calls body(thread, rows, columns), each span of columns some whole panels, none wider than widest(), and
  // ended(thread) after a thread's last. Returns how many threads that were.
  template <class Body>
  int run(
      const Body& body, ThreadFunction ended = [](int) {}) const {
    const auto share = [&](int thread, int64_t first, int64_t last) {
      for (int64_t unit = first, after = 0; unit < last; unit = after) {
        const int64_t part = unit / panels_, panel = unit % panels_;
        after = std::min({unit + shape_.slice_panels, unit + piece_, last, (part + 1) * panels_});
        body(thread, Span{part_begin(part), part_begin(part + 1)},
             Span{panel * shape_.columns, std::min((panel + after - unit) * shape_.columns, columns_)});
      }
    };
    return parallel_shares(parts_ * panels_, piece_, threads_, share, ended);
  }

 private:
  ColumnShares(int64_t rows, const PanelWeight& weight, int threads, int64_t panels, int64_t parts);
  int64_t part_begin(int64_t part) const {  // of whole tiles
    return std::min(round_up(rows_ * part / parts_, shape_.tile_rows), rows_);
  }

  const PanelShape shape_;
  const int64_t rows_, columns_, panels_, parts_;
  int64_t piece_;  // panels
};

// All columns, shared among so many threads; returns how many it were.
int multiply_by_columns(const LeftRows& x, int64_t rows, const PanelLayer& layer, const OutputRows& y,
                        int threads);

// How many rows a thread had better take at a time: fewer of very long ones, of which it keeps a copy.
int64_t rows_of_block(const PanelLayer& layer);

// Many rows, in spans of at most `most`. Where there are many, spans grow shorter towards the end, so that a
// thread which was disturbed is not waited for long.
class RowShares : public ThreadRows {
 public:
  RowShares(int64_t rows, int64_t most, const PanelWeight& weight, int threads);

  // Calls body(thread, next) on all threads: each takes spans of rows from next() until it gives an empty
  // one. Returns how many threads that were.
  template <class Body>
  int run(const Body& body) const {
    std::atomic<int64_t> taken{0};
    const auto next = [&] {
      int64_t begin = taken.load(std::memory_order_relaxed), end = 0;
      do end = end_of(begin);
      while (!taken.compare_exchange_weak(begin, end, std::memory_order_relaxed));
      return Span{begin, end};
    };
    return parallel_for(threads_, 1, [&](int64_t thread, int64_t) { body(static_cast<int>(thread), next); });
  }

 private:
  RowShares(int64_t rows, int64_t most, int64_t each, const PanelWeight& weight, int threads);
  int64_t end_of(int64_t begin) const;  // of the span that begins there

  const int64_t rows_, tile_;
  int64_t least_;
};

}  // namespace epilogue::cpu
