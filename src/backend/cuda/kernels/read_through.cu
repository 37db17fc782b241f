#include <cstdint>

#include "backend/cuda/kernels/read_through.h"

namespace epilogue::cuda {
namespace {

constexpr int kThreads = 512, kBlocks = 4 * 132;  // of an H200's multiprocessors

__global__ __launch_bounds__(kThreads) void read_through(uint4* data, size_t count) {
  uint32_t seen = 0;
  for (size_t i = size_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += size_t{kThreads} * kBlocks) {
    const uint4 v = data[i];
    seen |= v.x | v.y | v.z | v.w;
  }
  if (seen == 0xdeadbeef) data[0].x = seen;  // never, but the reads stay
}

}  // namespace

cudaError_t launch_read_through(void* data, size_t bytes, cudaStream_t stream) {
  read_through<<<kBlocks, kThreads, 0, stream>>>(static_cast<uint4*>(data), bytes / 16);
  return cudaGetLastError();
}

}  // namespace epilogue::cuda
