// act(x gate^T + b) * (x up^T + b) in one kernel, on Hopper.
#pragma once

#include "backend/backend.h"

namespace epilogue::cuda {

// Serves gated_linear.
const char* refuse_gated_linear(const KernelCall& call);
KernelRan run_gated_linear(const KernelCall& call);

}  // namespace epilogue::cuda
