#pragma once

#include "backend/cuda/device.h"

namespace epilogue::cuda {

// Begins to do, beside the calling thread while it makes its tensors, what its first products would wait for:
// cuBLASLt's tables (about 100 ms), the machine code of our own kernels (about 40 for each dtype). A product
// that comes sooner waits for the rest of it.
void warm_up(CudaDevice& device);

}  // namespace epilogue::cuda
