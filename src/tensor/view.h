// Stride algebra: what each view makes of sizes, strides and offset. No data is touched here, nor is any
// storage.
#pragma once

#include "epilogue/tensor.h"

namespace epilogue {

struct Layout {
  Dims sizes, strides;
  int64_t offset = 0;
};

// Each throws Error, beginning with the view's name, when the arguments do not fit.
Layout view_transpose(const Layout& in, int64_t dim0, int64_t dim1);
Layout view_t(const Layout& in);
Layout view_permute(const Layout& in, const Dims& order);
Layout view_view(const Layout& in, const Dims& sizes);
Layout view_slice(const Layout& in, int64_t dim, int64_t start, int64_t end, int64_t step);
Layout view_select(const Layout& in, int64_t dim, int64_t index);
Layout view_squeeze(const Layout& in);
Layout view_squeeze(const Layout& in, int64_t dim);
Layout view_unsqueeze(const Layout& in, int64_t dim);
Layout view_expand(const Layout& in, const Dims& sizes);
// `storage_elements` bounds what the view may reach.
Layout view_as_strided(const Dims& sizes, const Dims& strides, int64_t offset, int64_t storage_elements);

int64_t numel_of(const Dims& sizes);  // throws Error on a negative size and on overflow
// Of a contiguous tensor; throws Error where 64 bits do not count them.
size_t bytes_for(const Dims& sizes, DType dtype);
bool is_contiguous(const Dims& sizes, const Dims& strides);
// Replaces a -1 in `sizes`; throws Error when `numel` does not fit.
Dims resolve_sizes(const char* op, const Dims& sizes, int64_t numel);
// The strides under which `in` shows `sizes` without a copy; false when there are none.
bool view_strides(const Layout& in, const Dims& sizes, Dims& strides);

}  // namespace epilogue
