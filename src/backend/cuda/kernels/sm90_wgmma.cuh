// wgmma: 64 x N x 16 products of one warpgroup, both operands in shared memory, K-major, rows of 128 bytes
// swizzled as the copy engine's 128-byte mode leaves them. Thread t of the warpgroup holds, for each 8
// columns j, d[4j..4j+3] = rows (r, r, r+8, r+8), columns 8j + (c, c+1, c, c+1) with r = 16 (t / 32) + t % 32
// / 4, c = 2 (t % 4).
#pragma once

#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace epilogue::cuda::sm90 {

// Where a tile starts. Groups of 8 rows lie 1024 bytes apart; a step of 16 along K is +2, a step of 64 rows
// +512.
__device__ __forceinline__ uint64_t tile_descriptor(uint32_t address) {
  constexpr uint64_t swizzle_128_bytes = uint64_t{1} << 62, group_stride = uint64_t{1024 >> 4} << 32,
                     leading = uint64_t{1} << 16;
  return swizzle_128_bytes | group_stride | leading | ((address & 0x3ffff) >> 4);
}
__device__ __forceinline__ void wgmma_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int pending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}
// Keeps the compiler from moving accumulator accesses across.
template <int count>
__device__ __forceinline__ void wgmma_pin(float (&d)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// d = a b^T + (accumulate ? d : 0)
template <class T, int columns>
struct Wgmma;

#define EP_R4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define EP_R8(i) EP_R4(i), EP_R4(i + 4)
#define EP_R16(i) EP_R8(i), EP_R8(i + 8)
#define EP_R32(i) EP_R16(i), EP_R16(i + 16)
#define EP_R64(i) EP_R32(i), EP_R32(i + 32)
#define EP_P4 "%0, %1, %2, %3"
#define EP_P8 EP_P4 ", %4, %5, %6, %7"
#define EP_P16 EP_P8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define EP_P32 \
  EP_P16       \
  ", "         \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define EP_P40 EP_P32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define EP_P48 EP_P32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define EP_P52 EP_P48 ", %48, %49, %50, %51"
#define EP_P64                                                                                 \
  EP_P32                                                                                       \
  ", "                                                                                         \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, " \
  "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define EP_P72 EP_P64 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define EP_P76 EP_P72 ", %72, %73, %74, %75"
#define EP_P80 \
  EP_P64       \
  ", "         \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
#define EP_P88 EP_P80 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define EP_P96                                                                                 \
  EP_P64                                                                                       \
  ", "                                                                                         \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, " \
  "%82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define EP_P104 EP_P96 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define EP_P112 \
  EP_P96        \
  ", "          \
  "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111"
#define EP_P128                                                                                \
  EP_P112                                                                                      \
  ", "                                                                                         \
  "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, " \
  "%127"
#define EP_WGMMA(TYPE, NAME, N, COUNT, A, B, P, REGISTERS, ...)                                             \
  template <>                                                                                               \
  struct Wgmma<TYPE, N> {                                                                                   \
    static constexpr int registers = COUNT;                                                                 \
    static __device__ __forceinline__ void run(float (&d)[COUNT], uint64_t a, uint64_t b, int accumulate) { \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #P ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N     \
                   "k16.f32." NAME "." NAME " {" REGISTERS "}, %" #A ", %" #B ", p, 1, 1, 0, 0;\n}"         \
                   : __VA_ARGS__                                                                            \
                   : "l"(a), "l"(b), "r"(accumulate));                                                      \
    }                                                                                                       \
  };
#define EP_WGMMA_WIDTHS(TYPE, NAME)                                                         \
  EP_WGMMA(TYPE, NAME, 16, 8, 8, 9, 10, EP_P8, EP_R8(0))                                    \
  EP_WGMMA(TYPE, NAME, 32, 16, 16, 17, 18, EP_P16, EP_R16(0))                               \
  EP_WGMMA(TYPE, NAME, 64, 32, 32, 33, 34, EP_P32, EP_R32(0))                               \
  EP_WGMMA(TYPE, NAME, 80, 40, 40, 41, 42, EP_P40, EP_R32(0), EP_R8(32))                    \
  EP_WGMMA(TYPE, NAME, 96, 48, 48, 49, 50, EP_P48, EP_R32(0), EP_R16(32))                   \
  EP_WGMMA(TYPE, NAME, 104, 52, 52, 53, 54, EP_P52, EP_R32(0), EP_R16(32), EP_R4(48))       \
  EP_WGMMA(TYPE, NAME, 128, 64, 64, 65, 66, EP_P64, EP_R64(0))                              \
  EP_WGMMA(TYPE, NAME, 144, 72, 72, 73, 74, EP_P72, EP_R64(0), EP_R8(64))                   \
  EP_WGMMA(TYPE, NAME, 152, 76, 76, 77, 78, EP_P76, EP_R64(0), EP_R8(64), EP_R4(72))        \
  EP_WGMMA(TYPE, NAME, 176, 88, 88, 89, 90, EP_P88, EP_R64(0), EP_R16(64), EP_R8(80))       \
  EP_WGMMA(TYPE, NAME, 192, 96, 96, 97, 98, EP_P96, EP_R64(0), EP_R32(64))                  \
  EP_WGMMA(TYPE, NAME, 208, 104, 104, 105, 106, EP_P104, EP_R64(0), EP_R32(64), EP_R8(96))  \
  EP_WGMMA(TYPE, NAME, 224, 112, 112, 113, 114, EP_P112, EP_R64(0), EP_R32(64), EP_R16(96)) \
  EP_WGMMA(TYPE, NAME, 256, 128, 128, 129, 130, EP_P128, EP_R64(0), EP_R64(64))
EP_WGMMA_WIDTHS(__nv_bfloat16, "bf16")
EP_WGMMA_WIDTHS(__half, "f16")
#undef EP_R4
#undef EP_R8
#undef EP_R16
#undef EP_R32
#undef EP_R64
#undef EP_P4
#undef EP_P8
#undef EP_P16
#undef EP_P32
#undef EP_P40
#undef EP_P48
#undef EP_P52
#undef EP_P64
#undef EP_P72
#undef EP_P76
#undef EP_P80
#undef EP_P88
#undef EP_P96
#undef EP_P104
#undef EP_P112
#undef EP_P128
#undef EP_WGMMA
#undef EP_WGMMA_WIDTHS

}  // namespace epilogue::cuda::sm90
