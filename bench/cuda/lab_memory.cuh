// Device memory and random data for the lab, and the one check of CUDA's return codes.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace lab {

#define LAB_CHECK(call)                                                                                      \
  do {                                                                                                       \
    if (const auto lab_status = (call); static_cast<int>(lab_status) != 0) {                                 \
      std::printf("%s:%d: %s gave error %d (%s)\n", __FILE__, __LINE__, #call, static_cast<int>(lab_status), \
                  cudaGetErrorString(cudaGetLastError()));                                                   \
      std::exit(2);                                                                                          \
    }                                                                                                        \
  } while (0)

struct DeviceFree {
  void operator()(void* p) const { cudaFree(p); }
};
using DeviceMemory = std::unique_ptr<void, DeviceFree>;

inline DeviceMemory allocate(size_t bytes) {
  void* p = nullptr;
  LAB_CHECK(cudaMalloc(&p, bytes));
  return DeviceMemory(p);
}

// Two values near N(0, scale^2) from a counter: fresh data for each seed, without a generator's state.
__device__ inline float random_normal(uint64_t i, uint64_t seed) {
  uint64_t z = (i + 1) * 0x9E3779B97F4A7C15u + seed * 0xD1B54A32D192ED03u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u, z = (z ^ (z >> 27)) * 0x94D049BB133111EBu, z ^= z >> 31;
  const float a = (static_cast<uint32_t>(z) + 1.0f) * 2.3283064e-10f,
              b = static_cast<uint32_t>(z >> 32) * 2.3283064e-10f;
  return sqrtf(-2.0f * logf(fminf(a, 1.0f))) * cospif(2.0f * b);
}

template <class T>
__global__ void fill_random_kernel(T* data, int64_t count, float scale, uint64_t seed) {
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < count;
       i += int64_t{gridDim.x} * blockDim.x)
    data[i] = T(scale * random_normal(i, seed));
}

template <class T>
void fill_random(void* data, int64_t count, float scale, uint64_t seed) {
  fill_random_kernel<<<1024, 256>>>(static_cast<T*>(data), count, scale, seed);
  LAB_CHECK(cudaGetLastError());
}

}  // namespace lab
