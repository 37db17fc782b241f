// act(x gate^T + b) * (x up^T + b) in one kernel, on Hopper, and the whole MLP in two or in one.
#pragma once

#include "backend/backend.h"
#include "backend/cuda/gemm_choices.h"
#include "backend/cuda/kernels/gated_gemm.h"

namespace epilogue::cuda {

// The call's first three operands, their biases and its output, as our kernels see them.
GatedGemmProblem gated_problem_of(const KernelCall& call);
GemmKey gated_key_of(const GatedGemmProblem& problem);

// Serves gated_linear.
const char* refuse_gated_linear(const KernelCall& call);
KernelRan run_gated_linear(const KernelCall& call);
// `next`, contiguous or undefined, is read by the kernel that follows.
KernelRan run_gated_linear_before(const KernelCall& call, const Tensor& next);
// By a choice for a problem of the same key: false where it cannot run.
bool run_gated_linear_by(const GemmChoice& choice, const KernelCall& call, const Tensor& next);
GemmFinalists finalists_gated(const KernelCall& call);  // as they are kept

// Serves gated_mlp where the hidden tensor is small: as one call its two kernels are replayed by one launch,
// another pair of kernels runs where the two are quicker one after the other, and one kernel where that is.
const char* refuse_gated_mlp(const KernelCall& call);
KernelRan run_gated_mlp(const KernelCall& call);

}  // namespace epilogue::cuda
