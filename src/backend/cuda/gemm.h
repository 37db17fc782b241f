// Matrix products on CUDA: by cuBLASLt, the quickest of its heuristics found by timing, and by a plain kernel
// for what cuBLASLt does not take.
#pragma once

#include "backend/backend.h"
#include "backend/cuda/gemm_choices.h"

namespace epilogue::cuda {

const char* refuse_gemm_cublaslt(const KernelCall& call);
KernelRan run_gemm_cublaslt(const KernelCall& call);
KernelRan run_gemm_after_gated(const KernelCall& call);  // just after a gated kernel of ours
// By a choice for a product of the same key: false where it cannot run.
bool run_gemm_after_gated_by(const GemmChoice& choice, const KernelCall& call);
GemmFinalists finalists_after_gated(const KernelCall& call);  // as they are kept
KernelRan run_gemm_reference(const KernelCall& call);         // any strides, dtype and bias; slow

}  // namespace epilogue::cuda
