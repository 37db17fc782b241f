// Products of bf16 rows with a weight in tiles, by AMX: 32 rows by 32 columns at a time.
//
// A panel of panel_product.h then holds 32 columns as pairs of tiles, one pair for each 32 elements of the
// depth: tile by tile 16 rows, each of two neighbours in depth for 16 columns. What lies past the weight's
// end is 0.
#pragma once

#include "backend/cpu/amx.h"
#include "backend/cpu/kernels/panel_product.h"

namespace epilogue::cpu {

// Whether bf16 is multiplied so: EPILOGUE_ISA and the processor allow it, or a test has asked for tiles.
bool uses_tiles();

PanelShape tile_panel_shape();

// Rows may lie in tiles too, of 16 rows and 32 elements of the depth each: 16 rows after the other, whose
// tiles follow one another in depth. So the processor reads ahead by itself: 16 cores of an Emerald Rapids,
// each of which packed its own rows, took 13.4 ms instead of 16 to 18 for 8192 rows of 768/3072. Where cores
// share the rows it costs more than it gains.
// The element at (row, column) of rows that are `stride` long, a multiple of 32:
inline int64_t tile_offset(int64_t row, int64_t column, int64_t stride) {
  return row / kAmxRows * kAmxRows * stride + column / kAmxDepth * kAmxRows * kAmxDepth +
         row % kAmxRows * kAmxDepth + column % kAmxDepth;
}
// Rows of bf16 with any strides into such tiles, with zeros up to `stride`.
struct PlainRows {
  const uint16_t* data;
  int64_t rows, columns, row_stride, column_stride;
};
void rows_to_tiles(const PlainRows& from, uint16_t* to, int64_t stride);
// Rows of f32, rounded, into tiles of rows that are `stride` long, with zeros up to a whole tile; quickest 32
// apart.
struct WideRows {
  const float* data;
  int64_t rows, columns, stride;
};
void panels_to_tiles(const WideRows& from, uint16_t* to, int64_t stride);

void pack_tile_panel(const PlainWeight& from, int64_t first_column, uint16_t* to);
void multiply_tile_panels(const PanelProduct& product);

// For tests on other processors: the same, its instructions written out in C++. Not to be called while
// kernels run.
void emulate_tiles(bool emulate);

}  // namespace epilogue::cpu
