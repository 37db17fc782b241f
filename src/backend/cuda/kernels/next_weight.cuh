// The weight that the kernel after this one reads: while this kernel ends and that one starts, memory would
// be idle, so the blocks that end last have that weight brought into the second-level cache.
#pragma once

#include <algorithm>

#include "backend/cuda/kernels/gated_gemm.h"
#include "backend/cuda/kernels/sm90.cuh"

namespace epilogue::cuda {

struct NextWeight {
  // Small weights gain (64 x 1024 x 4096: 0.746 to 0.718 of cuBLAS's time), the first part of a large one
  // loses (M = 1, 4096 x 14336, 16 MB of 117: 88.6 us to 89.6).
  static constexpr int64_t most_bytes = int64_t{16} << 20;

  const uint8_t* data = nullptr;
  int first_block = 0;  // it and those after it fetch
  uint32_t share = 0;   // bytes of each: a multiple of 16, or 0 for nothing

  NextWeight() = default;
  // Of `blocks` blocks, `resident` run at a time.
  NextWeight(const GatedGemmProblem& p, int blocks, int resident)
      : data(static_cast<const uint8_t*>(p.next)) {
    if (p.next_bytes > most_bytes || reinterpret_cast<uintptr_t>(p.next) % 16 != 0) return;
    const int fetching = std::min(blocks, resident);
    first_block = blocks - fetching;
    share = static_cast<uint32_t>(p.next_bytes / fetching / 16 * 16);
  }
  // One thread of each block calls it.
  __device__ __forceinline__ void fetch() const {
    const int block = static_cast<int>(blockIdx.x) - first_block;
    if (share != 0 && block >= 0) sm90::fetch_to_cache(data + int64_t{block} * share, share);
  }
};

}  // namespace epilogue::cuda
