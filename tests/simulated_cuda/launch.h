// Between the two halves of the simulation.
#pragma once

#include <cuda_runtime_api.h>

#include "simulated_cuda/simulated_device.h"

namespace simulated_cuda {

// On the stream, or into the graph that it records.
cudaError_t launch(Kernel kernel, cudaStream_t stream);

}  // namespace simulated_cuda
