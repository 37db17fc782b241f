// Products of rows with a weight in tiles of bf16 (tile_pack.h) by vectors, on processors that have
// AVX512-BF16 and no AMX: up to 8 rows by 32 columns at a time, of fewer rows up to 128 columns.
#pragma once

#include "backend/cpu/kernels/panel_product.h"

namespace epilogue::cpu {

PanelShape tile_vectors_shape();

// `emulate`: for tests on other processors, its instruction by multiply-adds of f32.
void multiply_tiles_by_vectors(const PanelProduct& product, bool emulate);

}  // namespace epilogue::cpu
