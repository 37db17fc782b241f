#include "backend/cpu/kernels/tile_product.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <utility>

#include "backend/cpu/isa.h"
#include "backend/cpu/kernels/copy.h"
#include "base/half.h"

namespace epilogue::cpu {
namespace {

constexpr int64_t kTileColumns = 16, kTileElements = kAmxRows * kAmxDepth,
                  kTileBytes = kAmxRows * kAmxRowBytes;
constexpr int64_t kBlock = 32;  // rows, and columns, of a block: two tiles of each fill the eight registers

std::atomic<bool> emulated{false};

// What AmxTiles does, for processors without it; the same but for denormals.
struct EmulatedTiles {
  struct Registers {
    TileShapes shapes;
    alignas(64) std::byte tile[8][kTileBytes];
  };
  // Not thread-local themselves: a library that is loaded into a running process has little room for such.
  static Registers& registers() {
    thread_local const auto all = std::make_unique<Registers>();
    return *all;
  }
  static void configure(const TileShapes& shapes) { registers().shapes = shapes; }
  static void release() {}
  template <int kTile>
  static void zero() {
    std::memset(registers().tile[kTile], 0, kTileBytes);
  }
  template <int kTile>
  static void load(const void* from, int64_t stride) {
    zero<kTile>();
    for (int64_t r = 0; r < registers().shapes.rows[kTile]; ++r)
      std::memcpy(registers().tile[kTile] + r * kAmxRowBytes,
                  static_cast<const std::byte*>(from) + r * stride, kAmxRowBytes);
  }
  template <int kTile>
  static void load_once(const void* from, int64_t stride) {
    load<kTile>(from, stride);
  }
  template <int kTile>
  static void store(void* to, int64_t stride) {
    for (int64_t r = 0; r < registers().shapes.rows[kTile]; ++r)
      std::memcpy(static_cast<std::byte*>(to) + r * stride, registers().tile[kTile] + r * kAmxRowBytes,
                  kAmxRowBytes);
  }
  template <int kC, int kA, int kB>
  static void multiply() {
    auto* c = reinterpret_cast<float*>(registers().tile[kC]);
    const auto* a = reinterpret_cast<const uint16_t*>(registers().tile[kA]);
    const auto* b = reinterpret_cast<const uint16_t*>(registers().tile[kB]);
    for (int64_t r = 0; r < registers().shapes.rows[kA]; ++r)
      for (int64_t column = 0; column < kTileColumns; ++column) {
        float sums[2] = {};
        for (int64_t i = 0; i < kAmxDepth; ++i)
          sums[i % 2] +=
              f32_from_bf16(a[r * kAmxDepth + i]) * f32_from_bf16(b[i / 2 * kAmxDepth + column * 2 + i % 2]);
        c[r * kTileColumns + column] += sums[0] + sums[1];
      }
  }
};

// Registers 0 to 3 hold sums, 4 and 5 rows of x, 6 and 7 columns of the weight. Of up to 16 rows two panels
// are taken at a time: then 2 and 3 are the second one's sums and 5 its columns.
constexpr TileShapes shapes_for(int64_t rows) {
  TileShapes shapes;
  const auto upper = static_cast<uint8_t>(std::min(rows, kAmxRows));
  const auto lower = static_cast<uint8_t>(rows - upper);
  shapes.rows[0] = shapes.rows[1] = shapes.rows[4] = upper;
  shapes.rows[2] = shapes.rows[3] = lower > 0 ? lower : upper;
  if (lower > 0) shapes.rows[5] = lower;
  return shapes;
}
constexpr auto kShapes = []<size_t... kRows>(std::index_sequence<kRows...>) {
  return std::array{shapes_for(static_cast<int64_t>(kRows) + 1)...};
}
(std::make_index_sequence<kBlock>());

struct TileBlock {
  const std::byte* rows;
  int64_t row_bytes, lower_rows, step_bytes;  // from one row, from one 16 rows, from one step to the next
  const std::byte* panel;
  int64_t panel_bytes;  // to the next one
  int64_t steps;        // of the depth, kAmxDepth each
  const char* ahead;    // what is read after this panel: brought into L2 meanwhile,
  int64_t ahead_step;   // so many bytes a step
  float* c;
  int64_t c_stride;
  bool accumulate;
};

enum class Blocks { one, two_of_rows, two_of_panels };

template <class Tiles, Blocks kBlocks>
void multiply_block(const TileBlock& block) {
  constexpr bool kTwo = kBlocks != Blocks::one;
  const int64_t c_bytes = block.c_stride * static_cast<int64_t>(sizeof(float));
  float* second = block.c + (kBlocks == Blocks::two_of_panels ? kBlock : kAmxRows * block.c_stride);
  if (block.accumulate) {
    Tiles::template load<0>(block.c, c_bytes);
    Tiles::template load<1>(block.c + kTileColumns, c_bytes);
    if constexpr (kTwo) Tiles::template load<2>(second, c_bytes);
    if constexpr (kTwo) Tiles::template load<3>(second + kTileColumns, c_bytes);
  } else {
    Tiles::template zero<0>();
    Tiles::template zero<1>();
    if constexpr (kTwo) Tiles::template zero<2>();
    if constexpr (kTwo) Tiles::template zero<3>();
  }
  const std::byte *x = block.rows, *w = block.panel;
  const char* ahead = block.ahead;
  // The weight passes by: kept in L1 it would push the rows out, which the next panel reads again (16 cores
  // of an Emerald Rapids, 768/3072: 2 to 15% less for 8192 rows, 9 to 14% for 128; two cores of another 2 to
  // 5%).
  for (int64_t step = 0; step < block.steps; ++step, x += block.step_bytes, w += 2 * kTileBytes) {
    Tiles::template load_once<6>(w, kAmxRowBytes);
    Tiles::template load<4>(x, block.row_bytes);
    Tiles::template multiply<0, 4, 6>();
    Tiles::template load_once<7>(w + kTileBytes, kAmxRowBytes);
    Tiles::template multiply<1, 4, 7>();
    if constexpr (kBlocks == Blocks::two_of_rows) {
      Tiles::template load<5>(x + block.lower_rows, block.row_bytes);
      Tiles::template multiply<2, 5, 6>();
      Tiles::template multiply<3, 5, 7>();
    }
    if constexpr (kBlocks == Blocks::two_of_panels) {
      Tiles::template load_once<5>(w + block.panel_bytes, kAmxRowBytes);
      Tiles::template multiply<2, 4, 5>();
      Tiles::template load_once<6>(w + block.panel_bytes + kTileBytes, kAmxRowBytes);
      Tiles::template multiply<3, 4, 6>();
    }
    for (const char* end = ahead + block.ahead_step; ahead < end; ahead += kAmxRowBytes)
      __builtin_prefetch(ahead, 0, 2);
  }
  Tiles::template store<0>(block.c, c_bytes);
  Tiles::template store<1>(block.c + kTileColumns, c_bytes);
  if constexpr (kTwo) Tiles::template store<2>(second, c_bytes);
  if constexpr (kTwo) Tiles::template store<3>(second + kTileColumns, c_bytes);
}

template <class Tiles>
void multiply_rows(const TileBlock& block, int64_t rows) {
  rows > kAmxRows ? multiply_block<Tiles, Blocks::two_of_rows>(block)
                  : multiply_block<Tiles, Blocks::one>(block);
}

// Columns that do not fill their panel pass through a buffer.
template <class Tiles>
void multiply_narrow(TileBlock block, int64_t rows, int64_t columns) {
  alignas(64) float buffer[kBlock * kBlock] = {};
  const auto bytes = static_cast<size_t>(columns) * sizeof(float);
  float* c = std::exchange(block.c, buffer);
  const int64_t c_stride = std::exchange(block.c_stride, kBlock);
  if (block.accumulate)
    for (int64_t r = 0; r < rows; ++r) std::memcpy(buffer + r * kBlock, c + r * c_stride, bytes);
  multiply_rows<Tiles>(block, rows);
  for (int64_t r = 0; r < rows; ++r) std::memcpy(c + r * c_stride, buffer + r * kBlock, bytes);
}

// One panel, or two for up to 16 rows.
template <class Tiles>
void multiply_panel(TileBlock block, int64_t row_count, int64_t columns, int64_t& configured) {
  const TileBlock all = block;
  const int64_t blocks = (row_count + kBlock - 1) / kBlock;
  // One block alone waits for the weight, which the processor reads ahead by itself.
  block.ahead_step = blocks == 1 ? 0 : round_up(2 * kTileBytes / blocks, kAmxRowBytes);
  for (int64_t i = 0; i < blocks; ++i) {
    const int64_t first = i * kBlock, rows = std::min(kBlock, row_count - first);
    if (configured != rows) Tiles::configure(kShapes[static_cast<size_t>(rows - 1)]);
    configured = rows;
    block.rows = all.rows + 2 * i * all.lower_rows;
    block.ahead = all.ahead + i * block.ahead_step * all.steps;
    block.c = all.c + first * all.c_stride;
    if (columns == 2 * kBlock)
      multiply_block<Tiles, Blocks::two_of_panels>(block);
    else if (columns == kBlock)
      multiply_rows<Tiles>(block, rows);
    else
      multiply_narrow<Tiles>(block, rows, columns);
  }
}

template <class Tiles>
void multiply(const PanelProduct& p) {
  int64_t configured = 0;  // for so many rows
  for (int64_t column = p.columns.begin, after = 0; column < p.columns.end; column = after) {
    // Few rows wait for the weight, of which more comes from two places at once than from one.
    const bool two = p.row_count <= kAmxRows && column + 2 * kBlock <= p.columns.end;
    after = column + (two ? 2 : 1) * kBlock;
    const void* panel = p.weight.at(column, p.depth.begin);
    const void* next = after < p.columns.end ? p.weight.at(after, p.depth.begin) : p.next ? p.next : panel;
    multiply_panel<Tiles>({.rows = static_cast<const std::byte*>(p.rows),
                           .row_bytes = p.rows_in_tiles ? kAmxRowBytes : p.row_stride * 2,
                           .lower_rows = p.row_stride * kAmxRows * 2,
                           .step_bytes = p.rows_in_tiles ? kTileBytes : kAmxRowBytes,
                           .panel = static_cast<const std::byte*>(panel),
                           .panel_bytes = round_up(p.weight.k, kAmxDepth) * kBlock * 2,
                           .steps = (p.depth.size() + kAmxDepth - 1) / kAmxDepth,
                           .ahead = static_cast<const char*>(next),
                           .ahead_step = 0,
                           .c = p.c + (column - p.columns.begin),
                           .c_stride = p.c_stride,
                           .accumulate = p.accumulate},
                          p.row_count, std::min(after, p.columns.end) - column, configured);
  }
  Tiles::release();  // so that the system does not save the tiles of a thread that rests
}

}  // namespace

bool uses_tiles() { return emulated.load(std::memory_order_relaxed) || uses_amx(); }

void emulate_tiles(bool emulate) { emulated = emulate; }

PanelShape tile_panel_shape() {
  // On a core of an Emerald Rapids shared with others the loop alone reached 67% of AMX's rate with panels
  // from L2, and from the last cache 52% with 128 rows, 60% with 256, whose sums then crowd L2: the MLP of
  // 768/3072 took as long. On 16 of its cores, one after the other, 1024 rows took 1.6 to 1.8 ms by columns,
  // shared in small pieces, and 2.4 to 2.6 in blocks of rows, 2048 3.8 and 4.7; on a busier host all of it
  // took longer, and the same. On two cores of a calm machine blocks of 256 rows took 15 to 20% less than of
  // 128; on those 16, whose clock falls to a half and less when all multiply, up to 15% more. The loop alone,
  // on one core whose other half was busy, took 60 ns instead of 20 to load a tile, from L1 too, and gave 0.5
  // TFLOP/s instead of 1.1 to 1.6, in whatever order it loads and multiplies.
  return {.columns = kBlock,
          .lanes = kBlock,
          .tile_rows = kBlock,
          .depth_step = kAmxDepth,
          .depth = 1024,
          .block_rows = 128,
          .slice_panels = 32,
          .part_rows = 128,
          .few_rows = 256};
}

void pack_tile_panel(const PlainWeight& from, int64_t first_column, uint16_t* to) {
  const auto* data = static_cast<const uint16_t*>(from.data);
  const int64_t columns = std::min(kBlock, from.n - first_column);
  for (int64_t depth = 0; depth < from.k; depth += kAmxDepth, to += 2 * kTileElements) {
    const int64_t deep = std::min(kAmxDepth, from.k - depth);
    if (deep < kAmxDepth || columns < kBlock) std::fill(to, to + 2 * kTileElements, uint16_t{0});
    for (int64_t c = 0; c < columns; ++c) {
      const uint16_t* element = data + (first_column + c) * from.n_stride + depth * from.k_stride;
      uint16_t* pair = to + c / kTileColumns * kTileElements + c % kTileColumns * 2;
      for (int64_t i = 0; i < deep; ++i) pair[i / 2 * kAmxDepth + i % 2] = element[i * from.k_stride];
    }
  }
}

void rows_to_tiles(const PlainRows& from, uint16_t* to, int64_t stride) {
  for (int64_t r = 0; r < from.rows; ++r) {
    const uint16_t* row = from.data + r * from.row_stride;
    for (int64_t c = 0; c < stride; c += kAmxDepth) {
      uint16_t* tile_row = to + tile_offset(r, c, stride);
      const int64_t count = std::clamp<int64_t>(from.columns - c, 0, kAmxDepth);
      if (from.column_stride == 1 && count == kAmxDepth) {
        std::memcpy(tile_row, row + c, kAmxRowBytes);
        continue;
      }
      for (int64_t i = 0; i < count; ++i) tile_row[i] = row[(c + i) * from.column_stride];
      std::fill(tile_row + count, tile_row + kAmxDepth, uint16_t{0});
    }
  }
}

void panels_to_tiles(const WideRows& from, uint16_t* to, int64_t stride) {
  const RowKernel narrow = copy_kernel(DType::f32, DType::bf16).row;
  for (int64_t column = 0; column < from.columns; column += kAmxDepth) {
    const int64_t count = std::min(kAmxDepth, from.columns - column);
    for (int64_t r = 0; r < from.rows; ++r) {
      const float* row = from.data + r * from.stride + column;
      uint16_t* tile_row = to + tile_offset(r, column, stride);
      if (from.stride == kAmxDepth && count == kAmxDepth) {  // a tile's rows lie as here: all at once
        const int64_t rows = std::min(kAmxRows, from.rows - r);
        narrow(tile_row, row, nullptr, rows * kAmxDepth);
        r += rows - 1;
        continue;
      }
      narrow(tile_row, row, nullptr, count);
      std::fill(tile_row + count, tile_row + kAmxDepth, uint16_t{0});
    }
  }
}

void multiply_tile_panels(const PanelProduct& product) {
  if (product.row_count <= 0) return;
#if defined(__x86_64__)
  if (!emulated.load(std::memory_order_relaxed)) return multiply<AmxTiles>(product);
#endif
  multiply<EmulatedTiles>(product);
}

}  // namespace epilogue::cpu
