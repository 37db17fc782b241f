// act(x gate^T + b) * (x up^T + b) in one kernel, on Hopper, and the whole MLP in two.
#pragma once

#include "backend/backend.h"

namespace epilogue::cuda {

// Serves gated_linear.
const char* refuse_gated_linear(const KernelCall& call);
KernelRan run_gated_linear(const KernelCall& call);
// `next`, contiguous or undefined, is read by the kernel that follows.
KernelRan run_gated_linear_before(const KernelCall& call, const Tensor& next);

// Serves gated_mlp where the hidden tensor is small: as one call its two kernels are replayed by one launch.
const char* refuse_gated_mlp(const KernelCall& call);
KernelRan run_gated_mlp(const KernelCall& call);

}  // namespace epilogue::cuda
