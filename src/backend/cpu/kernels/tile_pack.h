// Rows and weights in tiles of bf16, as AMX's registers hold them; what lies past their end is 0.
//
// A number of f32 is the sum of three of bf16, its parts: 24 bits are three times 8. Where f32 is multiplied
// by AMX each tile is therefore three, one after the other, the first parts in the first. AMX takes denormals
// as 0: of numbers below 2^-102 the third part may be lost, below 2^-110 the second, so that they are wrong
// by up to 2^-126.
#pragma once

#include <cstdint>

#include "backend/cpu/amx.h"
#include "backend/cpu/kernels/panel_product.h"
#include "epilogue/ops.h"

namespace epilogue::cpu {

inline constexpr int64_t kParts = 3;
inline constexpr int kPartProducts = 6;  // of tiles, for one of f32 (tile_product.h)

// Tiles of 16 rows and 32 elements of the depth each: 16 rows after the other, whose tiles follow one another
// in depth. So the processor reads ahead by itself: 16 cores of an Emerald Rapids, each of which packed its
// own rows, took 13.4 ms instead of 16 to 18 for 8192 rows of 768/3072. Where cores share the rows it costs
// more than it gains.
// The element at (row, column) of rows that are `stride` long, a multiple of 32:
inline int64_t tile_offset(int64_t row, int64_t column, int64_t stride) {
  return row / kAmxRows * kAmxRows * stride + column / kAmxDepth * kAmxTileElements +
         row % kAmxRows * kAmxDepth + column % kAmxDepth;
}

// Rows with any strides.
template <class Element>
struct PlainRows {
  const Element* data;
  int64_t rows, columns, row_stride, column_stride;
};
// With zeros up to `stride`.
void rows_to_tiles(const PlainRows<uint16_t>& from, uint16_t* to, int64_t stride);
// Rows of f32 into their parts, with zeros up to a whole tile: three tiles where tile_offset() counts one.
// Gives whether all are finite: the parts of the others are not theirs.
bool rows_to_parts(const PlainRows<float>& from, uint16_t* to, int64_t stride);
// act(gate) * up of up to 32 numbers into a row of a tile, rounded, or into that row of three, in parts, with
// zeros after them. Of parts it gives whether all are finite.
using GatedTileRow = bool (*)(const float* gate, const float* up, int64_t columns, uint16_t* to);
GatedTileRow gated_tile_row(Act act, PanelForm form);

// A panel of panel_product.h holds 32 columns as pairs of tiles, one pair for each 32 elements of the depth:
// tile by tile 16 rows, each of two neighbours in depth for 16 columns. Of a weight in parts it holds three
// pairs.
inline constexpr int64_t kTilePanel = 2 * kAmxColumns;
void pack_tile_panel(const PlainWeight& from, int64_t first_column, uint16_t* to);
bool pack_part_panel(const PlainWeight& from, int64_t first_column, uint16_t* to);  // whether all are finite

}  // namespace epilogue::cpu
