// Products with a panel whose columns are not all there.
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>

namespace epilogue::cpu {

// multiply(block) with sums that pass through a buffer, since it writes whole panels: at most kRows of kPanel
// columns, of which c has `columns`. Block has c, c_stride and accumulate, as PanelProduct does.
template <int64_t kRows, int64_t kPanel, class Block, class Multiply>
void multiply_narrow(Block block, int64_t rows, int64_t columns, const Multiply& multiply) {
  alignas(64) float buffer[kRows * kPanel] = {};
  const auto bytes = static_cast<size_t>(columns) * sizeof(float);
  float* c = std::exchange(block.c, buffer);
  const int64_t c_stride = std::exchange(block.c_stride, kPanel);
  if (block.accumulate)
    for (int64_t r = 0; r < rows; ++r) std::memcpy(buffer + r * kPanel, c + r * c_stride, bytes);
  multiply(block);
  for (int64_t r = 0; r < rows; ++r) std::memcpy(c + r * c_stride, buffer + r * kPanel, bytes);
}

}  // namespace epilogue::cpu
