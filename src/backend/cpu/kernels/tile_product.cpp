#include "backend/cpu/kernels/tile_product.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include "backend/cpu/isa.h"
#include "backend/cpu/kernels/emulated_tiles.h"
#include "backend/cpu/kernels/narrow_panel.h"
#include "backend/cpu/kernels/tile_pack.h"
#include "backend/cpu/kernels/tile_vectors.h"
#include "base/threads.h"

namespace epilogue::cpu {
namespace {

constexpr int64_t kBlock = 32;  // rows, and columns, of a block: two tiles of each fill the eight registers

std::atomic<TileUnit> emulated{TileUnit::none};

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

// Spreads other work over as many turns as its product has.
class Turns {
 public:
  Turns(const Aside* aside, int64_t count)
      : aside_(aside), left_(aside ? aside->pieces : Span()), pieces_(left_.size()), count_(count) {}
  void take() {
    for (due_ += pieces_; due_ >= count_; due_ -= count_) aside_->run(left_.begin++);
  }
  void finish() {  // where two panels shared their turns
    while (left_.size() > 0) aside_->run(left_.begin++);
  }

 private:
  const Aside* aside_;
  Span left_;
  const int64_t pieces_, count_;
  int64_t due_ = 0;
};

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
  Turns* turns;
};

enum class Blocks { one, two_of_rows, two_of_panels };

// Bf16.
struct OfTiles {
  static constexpr int64_t kTiles = 1;  // where there is one of x or of the weight
  static constexpr int64_t kTurns = 1;  // of a step

  template <class Tiles, Blocks kBlocks>
  static void step(const TileBlock& block, const std::byte* x, const std::byte* w) {
    // The weight passes by: kept in L1 it would push the rows out, which the next panel reads again (16 cores
    // of an Emerald Rapids, 768/3072: 2 to 15% less for 8192 rows, 9 to 14% for 128; two cores of another 2
    // to 5%).
    Tiles::template load_once<6>(w, kAmxRowBytes);
    Tiles::template load<4>(x, block.row_bytes);
    Tiles::template multiply<0, 4, 6>();
    Tiles::template load_once<7>(w + kAmxTileBytes, kAmxRowBytes);
    Tiles::template multiply<1, 4, 7>();
    if constexpr (kBlocks == Blocks::two_of_rows) {
      Tiles::template load<5>(x + block.lower_rows, block.row_bytes);
      Tiles::template multiply<2, 5, 6>();
      Tiles::template multiply<3, 5, 7>();
    }
    if constexpr (kBlocks == Blocks::two_of_panels) {
      Tiles::template load_once<5>(w + block.panel_bytes, kAmxRowBytes);
      Tiles::template multiply<2, 4, 5>();
      Tiles::template load_once<6>(w + block.panel_bytes + kAmxTileBytes, kAmxRowBytes);
      Tiles::template multiply<3, 4, 6>();
    }
    block.turns->take();
  }
};

// F32 by its parts, the smallest products first; 14 loads for 24 of them.
struct OfParts {
  static constexpr int64_t kTiles = kParts, kTurns = 3;

  template <class Tiles, Blocks kBlocks>
  static void step(const TileBlock& block, const std::byte* x, const std::byte* w) {
    static_assert(kBlocks != Blocks::two_of_panels);
    const auto load_x = [&](int64_t part) {
      Tiles::template load<4>(x + part * kAmxTileBytes, kAmxRowBytes);
      if constexpr (kBlocks == Blocks::two_of_rows)
        Tiles::template load<5>(x + block.lower_rows + part * kAmxTileBytes, kAmxRowBytes);
    };
    const auto load_w = [&](int64_t part) {
      Tiles::template load_once<6>(w + part * 2 * kAmxTileBytes, kAmxRowBytes);
      Tiles::template load_once<7>(w + (part * 2 + 1) * kAmxTileBytes, kAmxRowBytes);
    };
    const auto multiply = [] {
      Tiles::template multiply<0, 4, 6>();
      Tiles::template multiply<1, 4, 7>();
      if constexpr (kBlocks == Blocks::two_of_rows) Tiles::template multiply<2, 5, 6>();
      if constexpr (kBlocks == Blocks::two_of_rows) Tiles::template multiply<3, 5, 7>();
    };
    load_w(2);
    load_x(0);
    multiply();
    load_w(1);
    multiply();
    block.turns->take();
    load_x(1);
    multiply();
    load_w(0);
    multiply();
    block.turns->take();
    load_x(2);
    multiply();
    load_x(0);
    multiply();
    block.turns->take();
  }
};

template <class Tiles, Blocks kBlocks, class Of>
void multiply_depth(const TileBlock& block) {
  const std::byte *x = block.rows, *w = block.panel;
  const char* ahead = block.ahead;
  for (int64_t step = 0; step < block.steps;
       ++step, x += block.step_bytes, w += Of::kTiles * 2 * kAmxTileBytes) {
    Of::template step<Tiles, kBlocks>(block, x, w);
    for (const char* end = ahead + block.ahead_step; ahead < end; ahead += kAmxRowBytes)
      __builtin_prefetch(ahead, 0, 2);
  }
}

template <class Tiles, Blocks kBlocks, class Of>
void multiply_block(const TileBlock& block) {
  constexpr bool kTwo = kBlocks != Blocks::one;
  const int64_t c_bytes = block.c_stride * static_cast<int64_t>(sizeof(float));
  float* second = block.c + (kBlocks == Blocks::two_of_panels ? kBlock : kAmxRows * block.c_stride);
  if (block.accumulate) {
    Tiles::template load<0>(block.c, c_bytes);
    Tiles::template load<1>(block.c + kAmxColumns, c_bytes);
    if constexpr (kTwo) Tiles::template load<2>(second, c_bytes);
    if constexpr (kTwo) Tiles::template load<3>(second + kAmxColumns, c_bytes);
  } else {
    Tiles::template zero<0>();
    Tiles::template zero<1>();
    if constexpr (kTwo) Tiles::template zero<2>();
    if constexpr (kTwo) Tiles::template zero<3>();
  }
  multiply_depth<Tiles, kBlocks, Of>(block);
  Tiles::template store<0>(block.c, c_bytes);
  Tiles::template store<1>(block.c + kAmxColumns, c_bytes);
  if constexpr (kTwo) Tiles::template store<2>(second, c_bytes);
  if constexpr (kTwo) Tiles::template store<3>(second + kAmxColumns, c_bytes);
}

template <class Tiles, class Of>
void multiply_rows(const TileBlock& block, int64_t rows) {
  rows > kAmxRows ? multiply_block<Tiles, Blocks::two_of_rows, Of>(block)
                  : multiply_block<Tiles, Blocks::one, Of>(block);
}

// Few rows wait for the weight, of which more comes from two places at once than from one. Products by parts
// do not: few rows are left to the vectors, which read less.
template <class Of>
constexpr bool kCanPair = Of::kTiles == 1;

// One panel, or two for up to 16 rows.
template <class Tiles, class Of>
void multiply_panel(TileBlock block, int64_t row_count, int64_t columns, int64_t& configured) {
  const TileBlock all = block;
  const int64_t blocks = (row_count + kBlock - 1) / kBlock;
  // One block alone waits for the weight, which the processor reads ahead by itself.
  block.ahead_step = blocks == 1 ? 0 : round_up(Of::kTiles * 2 * kAmxTileBytes / blocks, kAmxRowBytes);
  for (int64_t i = 0; i < blocks; ++i) {
    const int64_t first = i * kBlock, rows = std::min(kBlock, row_count - first);
    if (configured != rows) Tiles::configure(kShapes[static_cast<size_t>(rows - 1)]);
    configured = rows;
    block.rows = all.rows + 2 * i * all.lower_rows;
    block.ahead = all.ahead + i * block.ahead_step * all.steps;
    block.c = all.c + first * all.c_stride;
    if (columns < kBlock) {
      multiply_narrow<kBlock, kBlock>(block, rows, columns,
                                      [&](const TileBlock& b) { multiply_rows<Tiles, Of>(b, rows); });
    } else if (columns == kBlock) {
      multiply_rows<Tiles, Of>(block, rows);
    } else if constexpr (kCanPair<Of>) {
      multiply_block<Tiles, Blocks::two_of_panels, Of>(block);
    }
  }
}

template <class Tiles, class Of>
void multiply(const PanelProduct& p) {
  constexpr int64_t kElementBytes = 2 * Of::kTiles;
  const int64_t steps = (p.depth.size() + kAmxDepth - 1) / kAmxDepth;
  const int64_t blocks = (p.row_count + kBlock - 1) / kBlock * ((p.columns.size() + kBlock - 1) / kBlock);
  Turns turns(p.aside, blocks * steps * Of::kTurns);
  int64_t configured = 0;  // for so many rows
  for (int64_t column = p.columns.begin, after = 0; column < p.columns.end; column = after) {
    const bool two = kCanPair<Of> && p.row_count <= kAmxRows && column + 2 * kBlock <= p.columns.end;
    after = column + (two ? 2 : 1) * kBlock;
    const void* panel = p.weight.at(column, p.depth.begin);
    const void* next = after < p.columns.end ? p.weight.at(after, p.depth.begin) : p.next ? p.next : panel;
    multiply_panel<Tiles, Of>({.rows = static_cast<const std::byte*>(p.rows),
                               .row_bytes = p.rows_in_tiles ? kAmxRowBytes : p.row_stride * 2,
                               .lower_rows = p.row_stride * kAmxRows * kElementBytes,
                               .step_bytes = p.rows_in_tiles ? Of::kTiles * kAmxTileBytes : kAmxRowBytes,
                               .panel = static_cast<const std::byte*>(panel),
                               .panel_bytes = round_up(p.weight.k, kAmxDepth) * kBlock * kElementBytes,
                               .steps = steps,
                               .ahead = static_cast<const char*>(next),
                               .ahead_step = 0,
                               .c = p.c + (column - p.columns.begin),
                               .c_stride = p.c_stride,
                               .accumulate = p.accumulate,
                               .turns = &turns},
                              p.row_count, std::min(after, p.columns.end) - column, configured);
  }
  turns.finish();
  Tiles::release();  // so that the system does not save the tiles of a thread that rests
}

template <class Tiles>
void multiply_by(const PanelProduct& product) {
  product.weight.form == PanelForm::parts ? multiply<Tiles, OfParts>(product)
                                          : multiply<Tiles, OfTiles>(product);
}

}  // namespace

TileUnit tile_unit() {
  const TileUnit asked = emulated.load(std::memory_order_relaxed);
  if (asked != TileUnit::none) return asked;
  return uses_amx() ? TileUnit::amx : uses_avx512_bf16() ? TileUnit::vectors : TileUnit::none;
}

void emulate_tiles(TileUnit unit) { emulated = unit; }

PanelShape tile_panel_shape() {
  if (tile_unit() == TileUnit::vectors) return tile_vectors_shape();
  // On a core of an Emerald Rapids shared with others the loop alone reached 67% of AMX's rate with panels
  // from L2, and from the last cache 52% with 128 rows, 60% with 256. On two cores blocks of 256 rows of
  // 768/3072 and 1024/4096 took 11 to 19% less than of 128; on 16, whose clock falls to a half and less when
  // all multiply, up to 15% more. On these, one after the other, 1024 rows took 1.6 to 1.8 ms by columns,
  // shared in small pieces, and 2.4 to 2.6 in blocks of rows, 2048 3.8 and 4.7; on a busier host all of it
  // took longer, and the same. The loop alone, on one core whose other half was busy, took 60 ns instead of
  // 20 to load a tile, from L1 too, and gave 0.5 TFLOP/s instead of 1.1 to 1.6, in whatever order it loads
  // and multiplies.
  // Where vectors compute act(gate) * up beside the next product two cores take 2 to 5% less for 128 to 8192
  // rows of 768/3072, of f32 as of bf16; 16, which are the halves of 8 that compute beside each other anyway,
  // 2% more.
  constexpr int kFewThreads = 4;
  const bool few = thread_count() <= kFewThreads;
  return {.columns = kBlock,
          .lanes = kBlock,
          .tile_rows = kBlock,
          .depth_step = kAmxDepth,
          .depth = 1024,
          .block_rows = few ? 256 : 128,
          .slice_panels = 32,
          .part_rows = 128,
          .few_rows = 256,
          .aside = few};
}

PanelShape part_panel_shape() {
  // On two cores of an Emerald Rapids, 8192 rows of the MLP of 768/3072 took 232 to 242 ms in blocks of 128,
  // 225 to 241 of 192, 213 to 229 of 256, 233 of 288; of 1024/4096 466, 457, 460 and more.
  PanelShape shape = tile_panel_shape();
  shape.slice_panels = 16;
  return shape;
}

void multiply_tile_panels(const PanelProduct& product) {
  const bool emulates = emulated.load(std::memory_order_relaxed) != TileUnit::none;
  if (tile_unit() == TileUnit::vectors) {
    multiply_tiles_by_vectors(product, emulates);
    if (product.aside) product.aside->run_all();
    return;
  }
#if defined(__x86_64__)
  if (!emulates) return multiply_by<AmxTiles>(product);
#endif
  multiply_by<EmulatedTiles>(product);
}

}  // namespace epilogue::cpu
