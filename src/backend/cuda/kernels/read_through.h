// Empties the second-level cache before something is timed.
#pragma once

#include <cstddef>

#include <cuda_runtime_api.h>

namespace epilogue::cuda {

// Reads `bytes` (a multiple of 16) of memory that holds zeros and keeps nothing. Writing would empty the
// cache as well, but what was written goes back to memory while the next kernel runs, and that one is to be
// timed.
cudaError_t launch_read_through(void* data, size_t bytes, cudaStream_t stream);

}  // namespace epilogue::cuda
