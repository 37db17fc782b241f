// Matrix products of rows with a weight in panels, computed tile by tile in registers: f32 rows in vectors,
// bf16 rows by AMX or AVX512-BF16 where there is one, and f32 rows too by AMX, in three parts each, where
// they are many (tile_product.h).
//
// A panel holds some neighbouring columns of a [k, n] weight, the depth k outermost, so that a tile reads it
// from one end to the other. Each element of a product is one chain of multiply-adds in the order of k,
// started from what stood in c or from 0; by AVX512-BF16 in the order of pairs of k, the odd one first; by
// AMX two chains in each 32 of the depth, of even and of odd k, whose sum is added to c (in parts six times
// so). The latter two take denormals as 0. So its bits depend neither on how rows, columns and depth are cut
// nor on threads; f32's are others in parts than in vectors.
#pragma once

#include <cstdint>

#include "backend/cpu/amx.h"
#include "base/threads.h"
#include "epilogue/tensor.h"

namespace epilogue::cpu {

inline int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

// What reads the panels: vectors of f32, or AMX and AVX512-BF16, which read bf16 in tiles, and AMX f32 in the
// parts of tile_pack.h.
enum class PanelForm : uint8_t { vectors, tiles, parts };
// What the instruction set in use has for such a weight and so many rows.
PanelForm panel_form(DType weight, int64_t rows);

// What it computes with.
struct PanelShape {
  int64_t columns;     // of a panel; the last one of a weight has fewer, whole vectors still
  int64_t lanes;       // of a vector
  int64_t tile_rows;   // at most
  int64_t depth_step;  // the depth is padded to whole steps
  // What the caches want: the depth of a product, the rows of a block, the panels that are taken at a time,
  // the rows that pass by one panel after the other where threads share the weights.
  int64_t depth, block_rows, slice_panels, part_rows;
  int64_t few_rows;  // a thread with fewer had better share the weights than the rows
  bool aside;        // whether a product had better do other work on its way (Aside) than leave it for later

  int64_t slice() const { return slice_panels * columns; }
};
PanelShape panel_shape(PanelForm form);

// Elements of a [k, n] weight in panels, with what they are padded with.
int64_t panel_elements(PanelForm form, int64_t n, int64_t k);
int64_t panel_element_bytes(PanelForm form, DType weight);

// Rewrites a weight (strides in elements, of `element_size` 2 or 4 bytes) into panels, on as many threads as
// it deserves.
struct PlainWeight {
  const void* data;
  int64_t n, k, n_stride, k_stride;
  int element_size;
};
// Gives whether the panels are the weight's: those of parts are not where a number is infinite or none.
bool pack_panels(PanelForm form, const PlainWeight& from, void* to);

// A weight in panels of `dtype`: f32, bf16 or f16.
struct PanelWeight {
  const void* panels = nullptr;
  DType dtype = DType::f32;
  PanelForm form = PanelForm::vectors;
  int64_t n = 0, k = 0;

  PanelShape shape() const { return panel_shape(form); }
  bool in_tiles() const { return form != PanelForm::vectors; }
  // Of the rows that it multiplies, and of an element of them, which is three of bf16 in parts.
  DType row_dtype() const { return form == PanelForm::tiles ? DType::bf16 : DType::f32; }
  int64_t row_element_bytes() const { return panel_element_bytes(form, row_dtype()); }
  int64_t whole_rows(int64_t rows) const { return in_tiles() ? round_up(rows, kAmxRows) : rows; }
  const void* at(int64_t column, int64_t depth) const;  // of the panel that begins with this column
};

// From `begin` up to `end`, without it.
struct Span {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  Span share(int64_t i, int64_t count) const {  // one of `count` of about the same size
    return {begin + size() * i / count, begin + size() * (i + 1) / count};
  }
};

// Other work that a product does on its way: all pieces, in their order. Between the steps of tiles they cost
// little, as AMX multiplies on while vectors compute.
struct Aside {
  FunctionView<int64_t> run;
  Span pieces;

  void run_all() const {
    for (int64_t i = pieces.begin; i < pieces.end; ++i) run(i);
  }
};

// c (+)= rows times a part of a weight: some of its depth, some of its columns.
struct PanelProduct {
  const void* rows = nullptr;  // as the weight's form reads them; the first one, where the depth begins
  int64_t row_stride = 0, row_count = 0;
  bool rows_in_tiles = false;  // of tile_pack.h, not side by side
  PanelWeight weight;
  Span depth;          // begins a step, and the rows have whole ones
  Span columns;        // begins a panel; ends one, or the weight
  float* c = nullptr;  // of the first row and column
  int64_t c_stride = 0;
  bool accumulate = false;     // otherwise what stands in c is not read
  const void* next = nullptr;  // what the product after this one reads first of its weight
  const Aside* aside = nullptr;
};
void multiply_panels(const PanelProduct& product);

}  // namespace epilogue::cpu
