#include <cstdint>

#include "backend/cuda/kernels/read_through.h"

namespace epilogue::cuda {
namespace {

constexpr int kThreads = 512, kBlocks = 4 * 132;  // of an H200's multiprocessors

__global__ __launch_bounds__(kThreads) void read_through(const uint4* data, size_t count, uint32_t* never) {
  uint32_t seen = 0;
  for (size_t i = size_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += size_t{kThreads} * kBlocks) {
    const uint4 v = data[i];
    seen |= v.x | v.y | v.z | v.w;
  }
  if (never) *never = seen;  // but the reads stay
}

}  // namespace

cudaError_t launch_read_through(const void* data, size_t bytes, cudaStream_t stream) {
  const auto address = reinterpret_cast<uintptr_t>(data), first = (address + 15) / 16 * 16;
  if (bytes < first - address + 16) return cudaSuccess;
  read_through<<<kBlocks, kThreads, 0, stream>>>(reinterpret_cast<const uint4*>(first),
                                                 (bytes - (first - address)) / 16, nullptr);
  return cudaGetLastError();
}

}  // namespace epilogue::cuda
