// Products of rows with a weight in tiles of bf16, by AMX: 32 rows by 32 columns at a time. Where there is
// none AVX512-BF16 takes them (tile_vectors.h).
//
// f32 by its three parts (tile_pack.h) takes six tile products for one: those of two third parts, or of a
// second and a third, are too small for f32 to hold. Its sums are f32's as ever, of chains that are shorter:
// the error is less than half of the vectors' (of normal random numbers at a depth of 768 2.2e-7 of the
// results, 5.0e-7). Six AMX products take less time than one in AVX-512: on a core of an Emerald Rapids 128
// and 256 rows by 3072 columns of that depth ran at 283 and 300 GFLOP/s, where its FMA peak is 165.
#pragma once

#include "backend/cpu/kernels/panel_product.h"

namespace epilogue::cpu {

// What multiplies tiles: the best that EPILOGUE_ISA and the processor allow, or what a test has asked for.
enum class TileUnit : uint8_t { none, vectors, amx };
TileUnit tile_unit();

PanelShape tile_panel_shape();
PanelShape part_panel_shape();

void multiply_tile_panels(const PanelProduct& product);

// For tests on other processors: the same, this unit's instructions written out in C++; none ends it. Not to
// be called while kernels run.
void emulate_tiles(TileUnit unit);

}  // namespace epilogue::cpu
