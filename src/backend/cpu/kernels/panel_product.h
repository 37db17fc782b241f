// Matrix products of f32 rows with a weight in panels, computed tile by tile in registers.
//
// A panel holds some neighbouring columns of a [k, n] weight, the depth k outermost, so that a tile reads it
// from one end to the other. Each element of a product is one chain of multiply-adds in the order of k,
// started from what stood in c or from 0: its bits depend neither on how rows, columns and depth are cut nor
// on threads.
#pragma once

#include <cstdint>

#include "epilogue/tensor.h"

namespace epilogue::cpu {

// What the instruction set in use computes with.
struct PanelShape {
  int64_t columns;    // of a panel; the last one of a weight has fewer, whole vectors still
  int64_t lanes;      // of a vector
  int64_t tile_rows;  // at most
};
PanelShape panel_shape();

// Elements of a [k, n] weight in panels, the last one padded to whole vectors.
int64_t panel_elements(int64_t n, int64_t k);

// Rewrites a weight (strides in elements, of `element_size` 2 or 4 bytes) into panels, on as many threads as
// it deserves.
struct PlainWeight {
  const void* data;
  int64_t n, k, n_stride, k_stride;
  int element_size;
};
void pack_panels(const PlainWeight& from, void* to);

// A weight in panels of `dtype`: f32, bf16 or f16.
struct PanelWeight {
  const void* panels = nullptr;
  DType dtype = DType::f32;
  int64_t n = 0, k = 0;

  const void* at(int64_t column, int64_t depth) const;  // of the panel that begins with this column
};

// From `begin` up to `end`, without it.
struct Span {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
};

// c (+)= rows times a part of a weight: some of its depth, some of its columns.
struct PanelProduct {
  const float* rows = nullptr;  // of the first row, where the depth begins
  int64_t row_stride = 0, row_count = 0;
  PanelWeight weight;
  Span depth;          // not much more than kPanelDepth, for the caches' sake
  Span columns;        // begins a panel; ends one, or the weight
  float* c = nullptr;  // of the first row and column
  int64_t c_stride = 0;
  bool accumulate = false;     // otherwise what stands in c is not read
  const void* next = nullptr;  // what the product after this one reads first of its weight
};
void multiply_panels(const PanelProduct& product);

// The depth that keeps a hundred rows of x in L2 while panel after panel passes.
inline constexpr int64_t kPanelDepth = 1024;

}  // namespace epilogue::cpu
