// CUDA's devices as the device tracer needs them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "epilogue/trace.h"

namespace epilogue::profile {

struct CudaDevice {
  trace::DeviceProperties properties;
  size_t reserved_shared_per_block = 0;
};

// Read at the first call. None where CUDA cannot tell.
const std::vector<CudaDevice>& cuda_devices();

// Waits for every device that this process uses, and gives none a context that has none. The error's text;
// empty when all went well.
std::string synchronize_cuda_devices();

// Sets the launch's blocks and warps per multiprocessor, and its occupancy: how many of a multiprocessor's
// threads it can keep there, by NVIDIA's own calculation from registers, shared memory and block size, with
// no more blocks than its grid has.
void estimate_occupancy(const CudaDevice& device, size_t static_shared, size_t dynamic_shared,
                        trace::Launch& launch);

}  // namespace epilogue::profile
