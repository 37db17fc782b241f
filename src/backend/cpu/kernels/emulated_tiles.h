// What AmxTiles of amx.h does, written out in C++ for processors without it; the same but for denormals.
#pragma once

#include <cstring>
#include <memory>

#include "backend/cpu/amx.h"
#include "base/half.h"

namespace epilogue::cpu {

struct EmulatedTiles {
  struct Registers {
    TileShapes shapes;
    alignas(64) std::byte tile[8][kAmxTileBytes];
  };
  // Not thread-local themselves: a library that is loaded into a running process has little room for such.
  static Registers& registers() {
    thread_local const auto all = std::make_unique<Registers>();
    return *all;
  }
  static void configure(const TileShapes& shapes) { registers().shapes = shapes; }
  static void release() {}
  template <int kTile>
  static void zero() {
    std::memset(registers().tile[kTile], 0, kAmxTileBytes);
  }
  template <int kTile>
  static void load(const void* from, int64_t stride) {
    zero<kTile>();
    for (int64_t r = 0; r < registers().shapes.rows[kTile]; ++r)
      std::memcpy(registers().tile[kTile] + r * kAmxRowBytes,
                  static_cast<const std::byte*>(from) + r * stride, kAmxRowBytes);
  }
  template <int kTile>
  static void load_once(const void* from, int64_t stride) {
    load<kTile>(from, stride);
  }
  template <int kTile>
  static void store(void* to, int64_t stride) {
    for (int64_t r = 0; r < registers().shapes.rows[kTile]; ++r)
      std::memcpy(static_cast<std::byte*>(to) + r * stride, registers().tile[kTile] + r * kAmxRowBytes,
                  kAmxRowBytes);
  }
  template <int kC, int kA, int kB>
  static void multiply() {
    auto* c = reinterpret_cast<float*>(registers().tile[kC]);
    const auto* a = reinterpret_cast<const uint16_t*>(registers().tile[kA]);
    const auto* b = reinterpret_cast<const uint16_t*>(registers().tile[kB]);
    for (int64_t r = 0; r < registers().shapes.rows[kA]; ++r)
      for (int64_t column = 0; column < kAmxColumns; ++column) {
        float sums[2] = {};
        for (int64_t i = 0; i < kAmxDepth; ++i)
          sums[i % 2] +=
              f32_from_bf16(a[r * kAmxDepth + i]) * f32_from_bf16(b[i / 2 * kAmxDepth + column * 2 + i % 2]);
        c[r * kAmxColumns + column] += sums[0] + sums[1];
      }
  }
};

}  // namespace epilogue::cpu
