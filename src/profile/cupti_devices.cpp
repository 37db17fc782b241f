#include "profile/cupti_devices.h"

#include <algorithm>
#include <climits>
#include <cmath>

#include <cuda_occupancy.h>
#include <cuda_runtime.h>

namespace epilogue::profile {
namespace {

CudaDevice describe(const cudaDeviceProp& device, int32_t id) {
  return {
      .properties = {.id = id,
                     .name = device.name,
                     .total_memory = static_cast<int64_t>(device.totalGlobalMem),
                     .compute_major = device.major,
                     .compute_minor = device.minor,
                     .multiprocessors = device.multiProcessorCount,
                     .max_threads_per_block = device.maxThreadsPerBlock,
                     .max_threads_per_multiprocessor = device.maxThreadsPerMultiProcessor,
                     .registers_per_block = device.regsPerBlock,
                     .warp_size = device.warpSize,
                     .shared_per_block = static_cast<int64_t>(device.sharedMemPerBlock),
                     .registers_per_multiprocessor = device.regsPerMultiprocessor,
                     .shared_per_block_optin = static_cast<int64_t>(device.sharedMemPerBlockOptin),
                     .shared_per_multiprocessor = static_cast<int64_t>(device.sharedMemPerMultiprocessor)},
      .reserved_shared_per_block = device.reservedSharedMemPerBlock};
}

std::vector<CudaDevice> read_devices() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) return {};
  std::vector<CudaDevice> devices;
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp device{};
    if (cudaGetDeviceProperties(&device, i) != cudaSuccess) return {};
    devices.push_back(describe(device, i));
  }
  return devices;
}

cudaOccDeviceProp limits_of(const CudaDevice& device) {
  const trace::DeviceProperties& from = device.properties;
  cudaOccDeviceProp limits;
  limits.computeMajor = from.compute_major;
  limits.computeMinor = from.compute_minor;
  limits.maxThreadsPerBlock = from.max_threads_per_block;
  limits.maxThreadsPerMultiprocessor = from.max_threads_per_multiprocessor;
  limits.regsPerBlock = from.registers_per_block;
  limits.regsPerMultiprocessor = static_cast<int>(from.registers_per_multiprocessor);
  limits.warpSize = from.warp_size;
  limits.sharedMemPerBlock = static_cast<size_t>(from.shared_per_block);
  limits.sharedMemPerMultiprocessor = static_cast<size_t>(from.shared_per_multiprocessor);
  limits.numSms = from.multiprocessors;
  limits.sharedMemPerBlockOptin = static_cast<size_t>(from.shared_per_block_optin);
  limits.reservedSharedMemPerBlock = device.reserved_shared_per_block;
  return limits;
}

}  // namespace

const std::vector<CudaDevice>& cuda_devices() {
  static const std::vector<CudaDevice> devices = read_devices();
  return devices;
}

std::string synchronize_cuda_devices() {
  using GetState = int(int device, unsigned* flags, int* active);  // cuDevicePrimaryCtxGetState
  void* get_state = nullptr;
  cudaDriverEntryPointQueryResult found{};
  cudaError_t error = cudaGetDriverEntryPointByVersion("cuDevicePrimaryCtxGetState", &get_state, 7000,
                                                       cudaEnableDefault, &found);
  int current = 0;
  if (error == cudaSuccess) error = cudaGetDevice(&current);
  for (int i = 0; i < static_cast<int>(cuda_devices().size()) && error == cudaSuccess; ++i) {
    unsigned flags = 0;
    int active = 0;
    if (reinterpret_cast<GetState*>(get_state)(i, &flags, &active) != 0 || active == 0) continue;
    if (i != current) error = cudaSetDevice(i);
    if (error == cudaSuccess) error = cudaDeviceSynchronize();
    if (i != current) cudaSetDevice(current);
  }
  return error == cudaSuccess ? "" : cudaGetErrorString(error);
}

void estimate_occupancy(const CudaDevice& device, size_t static_shared, size_t dynamic_shared,
                        trace::Launch& launch) {
  const trace::DeviceProperties& limits = device.properties;
  const auto product = [](const std::array<int32_t, 3>& sizes) {
    return static_cast<float>(sizes[0]) * static_cast<float>(sizes[1]) * static_cast<float>(sizes[2]);
  };
  const float threads = product(launch.block);
  launch.blocks_per_sm = product(launch.grid) / static_cast<float>(limits.multiprocessors);
  launch.warps_per_sm = launch.blocks_per_sm * threads / static_cast<float>(limits.warp_size);

  cudaOccFuncAttributes function{};
  function.maxThreadsPerBlock = INT_MAX;
  function.numRegs = launch.registers_per_thread;
  function.sharedSizeBytes = static_shared;
  function.partitionedGCConfig = PARTITIONED_GC_OFF;
  // It ran, so that it has opted in to as much shared memory as it had.
  function.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
  function.maxDynamicSharedSizeBytes = dynamic_shared;
  function.numBlockBarriers = 1;
  const cudaOccDeviceProp properties = limits_of(device);
  const cudaOccDeviceState state{};
  cudaOccResult result{};
  if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &properties, &function, &state,
                                              static_cast<int>(threads), dynamic_shared) != CUDA_OCC_SUCCESS)
    return;
  const float blocks =
      std::min(launch.blocks_per_sm, static_cast<float>(result.activeBlocksPerMultiprocessor));
  launch.occupancy_percent =
      std::round(100 * blocks * threads / static_cast<float>(limits.max_threads_per_multiprocessor));
}

}  // namespace epilogue::profile
