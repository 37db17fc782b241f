// Descriptors for the bulk tensor copy engine.
#pragma once

#include <cstdint>

#include <cuda.h>

namespace epilogue::cuda {

// A row-major matrix of 16-bit elements and the box that one copy moves. `swizzle` is the width in bytes of
// the pattern in shared memory: 128, 64 or 32, the bytes of a box's row; of other rows there is none.
struct MatrixBox {
  const void* data = nullptr;
  uint64_t rows = 0, columns = 0, stride = 0;  // elements
  uint32_t box_rows = 0, box_columns = 0;
  uint16_t swizzle = 0;
  bool bf16 = false;
  bool operator==(const MatrixBox&) const = default;
};

// The encoded map; encoding is remembered per thread, since a model's weights come back on every call.
// Returns false when the driver offers no tensor maps or refuses this one.
bool tensor_map(const MatrixBox& matrix, CUtensorMap* map);

}  // namespace epilogue::cuda
