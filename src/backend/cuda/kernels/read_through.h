// Sets up the second-level cache before something is timed.
#pragma once

#include <cstddef>

#include <cuda_runtime_api.h>

namespace epilogue::cuda {

// Reads memory and keeps nothing: the cache then holds it, and where it is twice the cache's size nothing
// else. Writing would empty the cache as well, but what was written goes back to memory while the next kernel
// runs, and that one is to be timed.
cudaError_t launch_read_through(const void* data, size_t bytes, cudaStream_t stream);

}  // namespace epilogue::cuda
