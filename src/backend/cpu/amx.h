// AMX: eight tile registers of 16 rows of 64 bytes, and the instruction that multiplies them as bf16.
#pragma once

#include <cstdint>

namespace epilogue::cpu {

// Whether the processor has it for bf16 and the system lets this process use it.
bool has_amx();
// Whether the processor describes its tile registers too. Some virtual machines hide that; oneDNN then
// configures none, and its products end in an illegal instruction.
bool describes_amx();

// Of a register; the depth in bf16, the columns in pairs of bf16 or in f32.
inline constexpr int64_t kAmxRows = 16, kAmxRowBytes = 64, kAmxDepth = 32, kAmxColumns = 16;
inline constexpr int64_t kAmxTileBytes = kAmxRows * kAmxRowBytes, kAmxTileElements = kAmxRows * kAmxDepth;

// The rows of each register, as the processor reads them.
struct alignas(64) TileShapes {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileShapes) == 64);

#if defined(__x86_64__)

// GCC's intrinsics do not say that they read and write memory; these do.
struct AmxTiles {
  static void configure(const TileShapes& shapes) { asm volatile("ldtilecfg %0" ::"m"(shapes)); }
  static void release() { asm volatile("tilerelease"); }
  template <int kTile>
  static void zero() {
    asm volatile("tilezero %%tmm%c0" ::"i"(kTile));
  }
  // `stride` counts the bytes from one row to the next.
  template <int kTile>
  static void load(const void* from, int64_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(kTile) : "memory");
  }
  // What is read once, past the first-level cache, which keeps the rest.
  template <int kTile>
  static void load_once(const void* from, int64_t stride) {
    asm volatile("tileloaddt1 (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(kTile) : "memory");
  }
  template <int kTile>
  static void store(void* to, int64_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride), "i"(kTile) : "memory");
  }
  // c of f32 += a times b, a's rows of 32 bf16, b's of 16 pairs: two neighbours in depth of 16 columns.
  template <int kC, int kA, int kB>
  static void multiply() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kC), "i"(kA), "i"(kB));
  }
};

#endif

}  // namespace epilogue::cpu
