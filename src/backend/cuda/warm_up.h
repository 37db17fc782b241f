#pragma once

#include "backend/cuda/device.h"

namespace epilogue::cuda {

// Does in the background, while the program makes its tensors, what the first products would wait for:
// cuBLASLt's tables (100 ms) and the machine code of our own kernels (20 ms for each dtype). A product that
// comes sooner waits for the rest of it.
void warm_up(CudaDevice& device);

}  // namespace epilogue::cuda
