#include "backend/cpu/isa.h"  // first: it chooses Highway's targets

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/tile_vectors.cpp"
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include "backend/cpu/kernels/bf16_pairs-inl.h"
#include "backend/cpu/kernels/narrow_panel.h"
#include "backend/cpu/kernels/tile_pack.h"
#include "backend/cpu/kernels/tile_vectors.h"

HWY_BEFORE_NAMESPACE();
namespace epilogue::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int kMostRows = 8;  // half of a tile, so that the rows of a block lie evenly apart

struct VectorBlock {
  const std::byte* rows;
  int64_t row_bytes, step_bytes;  // from one row, from one step to the next
  const std::byte* panel;
  int64_t panel_bytes;  // to the next one
  int64_t steps;        // of the depth, kAmxDepth each
  const char* ahead;    // what is read after this panel: brought into L2 meanwhile,
  int64_t ahead_step;   // so many bytes a step
  float* c;
  int64_t c_stride;
  bool accumulate;
};
using BlockKernel = void (*)(const VectorBlock& block);

template <class By, int kRows, int kPanels>
void multiply_block(const VectorBlock& block) {
  const hn::ScalableTag<float> d;
  const hn::ScalableTag<uint32_t> du;
  constexpr int kLanes = static_cast<int>(hn::MaxLanes(d)), kOfTile = static_cast<int>(kAmxColumns) / kLanes;
  constexpr int kVectors = kPanels * 2 * kOfTile;
  PairSums sum[kRows][kVectors];
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(16)
    for (int v = 0; v < kVectors; ++v)
      sum[r][v] = block.accumulate ? hn::LoadU(d, block.c + r * block.c_stride + v * kLanes) : hn::Zero(d);
  }
  // Of what is read after it each tile asks for its neighbour in depth, 2 KB on, where the processor does not
  // look by itself; c is there when the sums are stored. On a Zen 4 core they gave 5% and 3%.
  const std::byte *x = block.rows, *w = block.panel;
  const char* ahead = block.ahead;
  for (int64_t step = 0; step < block.steps; ++step, x += block.step_bytes, w += 2 * kAmxTileBytes) {
    for (const char* end = ahead + block.ahead_step; ahead < end; ahead += kAmxRowBytes)
      __builtin_prefetch(ahead, 0, 2);
    if (step < kRows) {
      HWY_UNROLL(16)
      for (int v = 0; v < kVectors; ++v) __builtin_prefetch(block.c + step * block.c_stride + v * kLanes, 1);
    }
    HWY_UNROLL(2)
    for (int64_t pair = 0; pair < kAmxRows; ++pair) {
      Pairs column[kVectors];
      HWY_UNROLL(16)
      for (int v = 0; v < kVectors; ++v) {
        const std::byte* tile = w + v / (2 * kOfTile) * block.panel_bytes + v / kOfTile % 2 * kAmxTileBytes;
        column[v] = hn::LoadU(
            du, reinterpret_cast<const uint32_t*>(tile + pair * kAmxRowBytes) + v % kOfTile * kLanes);
        __builtin_prefetch(tile + 2 * kAmxTileBytes + pair * kAmxRowBytes);
      }
      HWY_UNROLL(8)
      for (int r = 0; r < kRows; ++r) {
        uint32_t two = 0;
        std::memcpy(&two, x + r * block.row_bytes + pair * static_cast<int64_t>(sizeof two), sizeof two);
        const Pairs factor = hn::Set(du, two);
        HWY_UNROLL(16)
        for (int v = 0; v < kVectors; ++v) sum[r][v] = By::add_products(sum[r][v], factor, column[v]);
      }
    }
  }
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(16)
    for (int v = 0; v < kVectors; ++v) hn::StoreU(sum[r][v], d, block.c + r * block.c_stride + v * kLanes);
  }
}

// Few rows wait for the weight, of which more comes from several places at once than from one.
constexpr int panels_together(int64_t rows) { return rows <= 2 ? 4 : rows <= 4 ? 2 : 1; }

// By rows less one: several panels, or one.
template <class By, bool kSeveral>
constexpr auto kBlockKernels = []<int... kIndex>(std::integer_sequence<int, kIndex...>) {
  return std::array<BlockKernel, sizeof...(kIndex)>{&multiply_block < By, kIndex + 1,
                                                    kSeveral ? panels_together(kIndex + 1) : 1 > ...};
}
(std::make_integer_sequence<int, kMostRows>());

// `columns` of a panel, or of several, for all rows: those of a tile in one block, or in two about as high.
template <class By>
void multiply_rows(VectorBlock block, int64_t tile_bytes, int64_t row_count, int64_t columns) {
  const VectorBlock all = block;
  const int64_t blocks = (row_count + kMostRows - 1) / kMostRows;
  // Few rows too: with weights in memory (two cores of a Zen 4, 2048/8192 and 4096/14336) 1 to 4 rows take 4
  // to 18% less for it, 5 and 8 of 2048/5632 half the time; in the last cache 1 and 2 rows of 768/3072 5%
  // more. For every panel that comes after several at once it costs more than it gains.
  block.ahead_step = round_up(2 * kAmxTileBytes / blocks, kAmxRowBytes);
  for (int64_t first = 0; first < row_count; first += kAmxRows) {
    const Span tile{first, std::min(first + kAmxRows, row_count)};
    const int64_t of_tile = (tile.size() + kMostRows - 1) / kMostRows;
    for (int64_t i = 0; i < of_tile; ++i, block.ahead += block.ahead_step * block.steps) {
      const Span some = tile.share(i, of_tile);
      block.rows = all.rows + first / kAmxRows * tile_bytes + (some.begin - first) * all.row_bytes;
      block.c = all.c + some.begin * all.c_stride;
      const auto index = static_cast<size_t>(some.size() - 1);
      const BlockKernel kernel =
          columns > kTilePanel ? kBlockKernels<By, true>[index] : kBlockKernels<By, false>[index];
      columns < kTilePanel ? multiply_narrow<kMostRows, kTilePanel>(block, some.size(), columns, kernel)
                           : kernel(block);
    }
  }
}

template <class By>
void multiply(const PanelProduct& p) {
  for (int64_t column = p.columns.begin, after = 0; column < p.columns.end; column = after) {
    const int64_t wide = column + panels_together(p.row_count) * kTilePanel;
    after = wide <= p.columns.end ? wide : column + kTilePanel;
    const void* panel = p.weight.at(column, p.depth.begin);
    const void* next = after < p.columns.end ? p.weight.at(after, p.depth.begin) : p.next ? p.next : panel;
    multiply_rows<By>({.rows = static_cast<const std::byte*>(p.rows),
                       .row_bytes = p.rows_in_tiles ? kAmxRowBytes : 2 * p.row_stride,
                       .step_bytes = p.rows_in_tiles ? kAmxTileBytes : kAmxRowBytes,
                       .panel = static_cast<const std::byte*>(panel),
                       .panel_bytes = round_up(p.weight.k, kAmxDepth) * kTilePanel * 2,
                       .steps = (p.depth.size() + kAmxDepth - 1) / kAmxDepth,
                       .ahead = static_cast<const char*>(next),
                       .ahead_step = 0,
                       .c = p.c + (column - p.columns.begin),
                       .c_stride = p.c_stride,
                       .accumulate = p.accumulate},
                      2 * p.row_stride * kAmxRows, p.row_count, std::min(after, p.columns.end) - column);
  }
}

void multiply_native(const PanelProduct& product) { multiply<NativePairs>(product); }
void multiply_emulated(const PanelProduct& product) { multiply<EmulatedPairs>(product); }

}  // namespace epilogue::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace epilogue::cpu {
namespace {

HWY_EXPORT(multiply_native);
HWY_EXPORT(multiply_emulated);

}  // namespace

PanelShape tile_vectors_shape() {
  // Two cores of a Zen 4 (1 MB of L2 each): 1024 rows of an MLP of 768/3072 and of 1024/4096 took the same
  // within 3%, the noise, with 64 to 256 rows and 16 to 48 panels; fused had most over eager from 192 rows
  // on.
  return {.columns = kTilePanel,
          .lanes = kTilePanel,
          .tile_rows = kAmxRows,
          .depth_step = kAmxDepth,
          .depth = 1024,
          .block_rows = 192,
          .slice_panels = 24,
          .part_rows = 128,
          .few_rows = 32,
          .aside = false};
}

void multiply_tiles_by_vectors(const PanelProduct& product, bool emulate) {
  apply_isa_cap();
  emulate ? HWY_DYNAMIC_DISPATCH(multiply_emulated)(product) : HWY_DYNAMIC_DISPATCH(multiply_native)(product);
}

}  // namespace epilogue::cpu
#endif
