#include "backend/cpu/isa.h"  // first: it chooses Highway's targets

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/panel_product.cpp"
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <utility>

#include <hwy/aligned_allocator.h>
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include "backend/cpu/kernels/copy.h"
#include "backend/cpu/kernels/narrow_panel.h"
#include "backend/cpu/kernels/panel_product.h"
#include "backend/cpu/kernels/tile_pack.h"
#include "backend/cpu/kernels/tile_product.h"
#include "backend/cpu/kernels/vector_math-inl.h"
#include "base/threads.h"

HWY_BEFORE_NAMESPACE();
namespace epilogue::cpu::HWY_NAMESPACE {

// Three vectors wide: with 32 registers 27 sums, 3 of the weight and one of x. On an Ice Lake core tiles of
// 9x3 vectors reached 92% of the FMA peak at k = 768, 14x2 84%, 6x4 90% (LIBXSMM's kernels beside them 90%).
constexpr int kVectors = 3;
constexpr int kTileRows = HWY_TARGET == HWY_AVX3 ? 9 : 4;
constexpr int64_t kWidest = kVectors * hn::MaxLanes(F32Tag());  // columns of a tile
constexpr int64_t kLineBytes = 64;

struct Tile {
  const float* rows;
  int64_t row_stride;
  const void* panel;
  int64_t depth;
  const char* ahead;   // what is read after this panel: brought into L2 meanwhile,
  int64_t ahead_step;  // so many bytes a step of the depth
  float* c;
  int64_t c_stride;
  bool accumulate;
};
using TileKernel = void (*)(const Tile& tile);

// Of tables of kernels, the one for panels of this dtype.
template <class Table>
const Table& of_dtype(DType dtype, const Table& f32, const Table& bf16, const Table& f16) {
  return dtype == DType::f32 ? f32 : dtype == DType::bf16 ? bf16 : f16;
}

// E is an element of the panel: float, Bf16 or F16.
template <class E, int kRows, int kWidth>
void multiply_tile(const Tile& tile) {
  const F32Tag d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<F32Tag> sum[kRows][kWidth];
  const float* x[kRows];
  HWY_UNROLL(16)
  for (int r = 0; r < kRows; ++r) {
    x[r] = tile.rows + r * tile.row_stride;
    HWY_UNROLL(4)
    for (int v = 0; v < kWidth; ++v)
      sum[r][v] = tile.accumulate ? hn::LoadU(d, tile.c + r * tile.c_stride + v * lanes) : hn::Zero(d);
  }
  const E* w = static_cast<const E*>(tile.panel);
  const char* ahead = tile.ahead;
  const float* c = tile.c;
  const int64_t part = (tile.depth + kRows - 1) / kRows;
  // Where one or two tiles read a panel, each step asks for several lines of the next one. Two cores of a Zen
  // 4, 1024/4096 in f32, weights in memory: 8 and 16 rows take a third less.
  const bool two_lines = tile.ahead_step > kLineBytes, three_lines = tile.ahead_step > 2 * kLineBytes;
  for (int64_t i = 0; i < tile.depth; c += tile.c_stride) {
    // Asked for a row at a time, c is there when the sums are stored: the misses of all its rows at once
    // would hold up what comes from L2. A product of 1024x768 by 768x3072 in f32 gained 2% on an Ice Lake
    // core.
    HWY_UNROLL(4)
    for (int v = 0; v < kWidth; ++v) __builtin_prefetch(c + v * lanes, 1);
    for (const int64_t end = std::min(i + part, tile.depth); i < end;
         ++i, w += kWidth * lanes, ahead += tile.ahead_step) {
      __builtin_prefetch(ahead, 0, 2);
      if (two_lines) __builtin_prefetch(ahead + kLineBytes, 0, 2);
      if (three_lines) __builtin_prefetch(ahead + 2 * kLineBytes, 0, 2);
      hn::Vec<F32Tag> column[kWidth];
      HWY_UNROLL(4)
      for (int v = 0; v < kWidth; ++v) column[v] = load(w + v * lanes).v;
      HWY_UNROLL(16)
      for (int r = 0; r < kRows; ++r) {
        const auto factor = hn::Set(d, x[r][i]);
        HWY_UNROLL(4)
        for (int v = 0; v < kWidth; ++v) sum[r][v] = hn::MulAdd(factor, column[v], sum[r][v]);
      }
    }
  }
  HWY_UNROLL(16)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(4)
    for (int v = 0; v < kWidth; ++v) hn::StoreU(sum[r][v], d, tile.c + r * tile.c_stride + v * lanes);
  }
}

// Up to so many rows wait for the weight: a processor brings in more of it from several places at once than
// from one. The sums of several panels then fill the registers.
constexpr int kMostWaitingRows = kTileRows / 2;
constexpr int panels_at_once(int64_t rows) {
  return rows > kMostWaitingRows ? 1
                                 : static_cast<int>(std::bit_floor(static_cast<uint64_t>(kTileRows / rows)));
}

// As multiply_tile for panels that are full, `pitch` elements apart.
template <class E, int kRows>
void multiply_few_rows(const Tile& tile, int64_t pitch) {
  constexpr int kPanels = panels_at_once(kRows);
  const F32Tag d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto c = [&](int r, int p, int v) { return tile.c + r * tile.c_stride + (p * kVectors + v) * lanes; };
  hn::Vec<F32Tag> sum[kRows][kPanels][kVectors];
  HWY_UNROLL(4)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(8)
    for (int p = 0; p < kPanels; ++p) {
      HWY_UNROLL(4)
      for (int v = 0; v < kVectors; ++v)
        sum[r][p][v] = tile.accumulate ? hn::LoadU(d, c(r, p, v)) : hn::Zero(d);
    }
  }
  const E* w = static_cast<const E*>(tile.panel);
  for (int64_t i = 0; i < tile.depth; ++i, w += kVectors * lanes) {
    hn::Vec<F32Tag> factor[kRows];
    HWY_UNROLL(4)
    for (int r = 0; r < kRows; ++r) factor[r] = hn::Set(d, tile.rows[r * tile.row_stride + i]);
    HWY_UNROLL(8)
    for (int p = 0; p < kPanels; ++p) {
      HWY_UNROLL(4)
      for (int v = 0; v < kVectors; ++v) {
        const auto column = load(w + p * pitch + v * lanes).v;
        HWY_UNROLL(4)
        for (int r = 0; r < kRows; ++r) sum[r][p][v] = hn::MulAdd(factor[r], column, sum[r][p][v]);
      }
    }
  }
  HWY_UNROLL(4)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(8)
    for (int p = 0; p < kPanels; ++p) {
      HWY_UNROLL(4)
      for (int v = 0; v < kVectors; ++v) hn::StoreU(sum[r][p][v], d, c(r, p, v));
    }
  }
}

using FewRowsKernel = void (*)(const Tile& tile, int64_t pitch);
template <class E>
constexpr auto kFewRowsKernels = []<int... kIndex>(std::integer_sequence<int, kIndex...>) {
  return std::array<FewRowsKernel, sizeof...(kIndex)>{&multiply_few_rows<E, kIndex + 1>...};
}
(std::make_integer_sequence<int, kMostWaitingRows>());

FewRowsKernel few_rows_kernel(DType dtype, int64_t rows) {
  return of_dtype(dtype, kFewRowsKernels<float>, kFewRowsKernels<Bf16>,
                  kFewRowsKernels<F16>)[static_cast<size_t>(rows - 1)];
}

// By rows and vectors, each less one.
template <class E>
constexpr auto kTileKernels = []<int... kIndex>(std::integer_sequence<int, kIndex...>) {
  return std::array<TileKernel, sizeof...(kIndex)>{
      &multiply_tile<E, kIndex / kVectors + 1, kIndex % kVectors + 1>...};
}
(std::make_integer_sequence<int, kTileRows * kVectors>());

TileKernel tile_kernel(DType dtype, int64_t rows, int64_t vectors) {
  const auto index = static_cast<size_t>((rows - 1) * kVectors + vectors - 1);
  return of_dtype(dtype, kTileKernels<float>, kTileKernels<Bf16>, kTileKernels<F16>)[index];
}

// One panel's share, `columns` of it, for all rows in tiles of nearly equal heights.
void multiply_panel(Tile tile, DType dtype, int64_t row_count, int64_t columns) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(F32Tag()));
  const int64_t vectors = (columns + lanes - 1) / lanes, tiles = (row_count + kTileRows - 1) / kTileRows;
  const Tile all = tile;
  tile.ahead_step = (all.ahead_step + tiles - 1) / tiles;
  for (int64_t i = 0; i < tiles; ++i) {
    const int64_t first = row_count * i / tiles, rows = row_count * (i + 1) / tiles - first;
    tile.rows = all.rows + first * all.row_stride;
    tile.ahead = all.ahead + i * tile.ahead_step * all.depth;
    tile.c = all.c + first * all.c_stride;
    const TileKernel kernel = tile_kernel(dtype, rows, vectors);
    if (columns == vectors * lanes)
      kernel(tile);
    else
      multiply_narrow<kTileRows, kWidest>(tile, rows, columns, kernel);
  }
}

// The panel in f32, in a buffer that the next call on this thread takes anew.
const float* widened(const void* panel, DType dtype, int64_t elements) {
  thread_local hwy::AlignedFreeUniquePtr<float[]> wide;
  thread_local int64_t size = 0;
  if (size < elements) {
    size = elements;
    wide = hwy::AllocateAligned<float>(static_cast<size_t>(size));
  }
  copy_kernel(dtype, DType::f32).row(wide.get(), panel, nullptr, elements);
  return wide.get();
}

PanelShape find_shape() {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(F32Tag()));
  // A block's rows of x, and of what is made of them, share L2 with the panels that pass. A gated MLP of
  // 768/3072 in f32 on an Ice Lake core (1.25 MB of L2) reached 89% of the FMA peak with 108 rows and 16
  // panels; 72 to 144 rows and 8 to 24 panels 83% to 91%, 216 rows 85%.
  return {.columns = kVectors * lanes,
          .lanes = lanes,
          .tile_rows = kTileRows,
          .depth_step = 1,
          .depth = 1024,
          .block_rows = 108,
          .slice_panels = 16,
          .part_rows = 216,
          .few_rows = 32,
          .aside = false};
}

void multiply(const PanelProduct& p) {
  const PanelShape shape = find_shape();
  for (int64_t column = p.columns.begin, after = 0; column < p.columns.end; column = after) {
    const int64_t wide = column + panels_at_once(p.row_count) * shape.columns;
    after = wide <= p.columns.end ? wide : column + shape.columns;
    const int64_t columns = std::min(after, p.columns.end) - column;
    const void* panel = p.weight.at(column, p.depth.begin);
    const void* next = after < p.columns.end ? p.weight.at(after, p.depth.begin) : p.next ? p.next : panel;
    Tile tile{.rows = static_cast<const float*>(p.rows),
              .row_stride = p.row_stride,
              .panel = panel,
              .depth = p.depth.size(),
              .ahead = static_cast<const char*>(next),
              .ahead_step = shape.columns * static_cast<int64_t>(dtype_size(p.weight.dtype)),
              .c = p.c + (column - p.columns.begin),
              .c_stride = p.c_stride,
              .accumulate = p.accumulate};
    DType dtype = p.weight.dtype;
    if (columns > shape.columns) {
      few_rows_kernel(dtype, p.row_count)(tile, p.weight.k * shape.columns);
      continue;
    }
    // 16-bit floats become f32 in registers where few tiles read them, otherwise once in L2.
    if (dtype != DType::f32 && p.row_count > 2 * kTileRows) {
      const int64_t pitch = (columns + shape.lanes - 1) / shape.lanes * shape.lanes;
      tile.panel = widened(panel, dtype, tile.depth * pitch);
      dtype = DType::f32;
    }
    multiply_panel(tile, dtype, p.row_count, columns);
  }
}

}  // namespace epilogue::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace epilogue::cpu {
namespace {

HWY_EXPORT(find_shape);
HWY_EXPORT(multiply);

template <class Element>
void pack_columns(const PlainWeight& from, int64_t first, int64_t last, int64_t pitch, Element* to) {
  const auto* data = static_cast<const Element*>(from.data);
  for (int64_t i = 0; i < from.k; ++i, to += pitch) {
    for (int64_t column = first; column < last; ++column)
      to[column - first] = data[column * from.n_stride + i * from.k_stride];
    std::fill(to + (last - first), to + pitch, Element{});
  }
}

}  // namespace

PanelForm panel_form(DType weight, int64_t rows) {
  if (weight == DType::bf16 && tile_unit() != TileUnit::none) return PanelForm::tiles;
  const bool in_parts =
      weight == DType::f32 && rows >= kSplitRows && splits_f32() && tile_unit() == TileUnit::amx;
  return in_parts ? PanelForm::parts : PanelForm::vectors;
}

PanelShape panel_shape(PanelForm form) {
  if (form == PanelForm::tiles) return tile_panel_shape();
  if (form == PanelForm::parts) return part_panel_shape();
  apply_isa_cap();
  return HWY_DYNAMIC_DISPATCH(find_shape)();
}

const void* PanelWeight::at(int64_t column, int64_t depth) const {
  const PanelShape shape = panel_shape(form);
  const int64_t pitch = round_up(std::min(shape.columns, n - column), shape.lanes);
  return static_cast<const std::byte*>(panels) +
         (column * round_up(k, shape.depth_step) + depth * pitch) * panel_element_bytes(form, dtype);
}

int64_t panel_elements(PanelForm form, int64_t n, int64_t k) {
  const PanelShape shape = panel_shape(form);
  return round_up(n, shape.lanes) * round_up(k, shape.depth_step);
}

int64_t panel_element_bytes(PanelForm form, DType weight) {
  return form == PanelForm::parts ? kParts * static_cast<int64_t>(sizeof(uint16_t))
                                  : static_cast<int64_t>(dtype_size(weight));
}

bool pack_panels(PanelForm form, const PlainWeight& from, void* to) {
  const PanelShape shape = panel_shape(form);
  const int64_t panels = (from.n + shape.columns - 1) / shape.columns;
  const int64_t grain = std::max<int64_t>(1, (1 << 16) / (from.k * shape.columns + 1));
  std::atomic<bool> right = true;
  parallel_for(panels, grain, [&](int64_t begin, int64_t end) {
    for (int64_t panel = begin; panel < end; ++panel) {
      const int64_t first = panel * shape.columns, last = std::min(first + shape.columns, from.n);
      const int64_t pitch = round_up(last - first, shape.lanes);
      const int64_t before = first * round_up(from.k, shape.depth_step);  // elements
      if (form == PanelForm::tiles)
        pack_tile_panel(from, first, static_cast<uint16_t*>(to) + before);
      else if (form == PanelForm::parts) {
        if (!pack_part_panel(from, first, static_cast<uint16_t*>(to) + kParts * before)) right = false;
      } else if (from.element_size == 4)
        pack_columns(from, first, last, pitch, static_cast<uint32_t*>(to) + first * from.k);
      else
        pack_columns(from, first, last, pitch, static_cast<uint16_t*>(to) + first * from.k);
    }
  });
  return right;
}

void multiply_panels(const PanelProduct& product) {
  if (product.weight.in_tiles()) return multiply_tile_panels(product);
  apply_isa_cap();
  HWY_DYNAMIC_DISPATCH(multiply)(product);
  if (product.aside) product.aside->run_all();
}

}  // namespace epilogue::cpu
#endif
