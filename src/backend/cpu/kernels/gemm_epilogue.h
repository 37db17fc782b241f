// Products with a pointwise program as their epilogue: on each block of rows that a product has just left in
// cache, or by oneDNN's post-ops.
#pragma once

#include "backend/backend.h"

namespace epilogue::cpu {

// Any program, where the product runs over a weight in panels.
const char* refuse_gemm_panel_blocks(const KernelCall& call);
KernelRan run_gemm_panel_blocks(const KernelCall& call);

// One product of oneDNN, then additions or multiplications with other matrices, one after the other. Not
// relu: oneDNN's makes 0 of NaN. oneDNN's gelu on the accumulators cost more than the eager kernels' own on a
// block of rows: 2 to 4% of a gated MLP of 768/3072 in f32 at M = 128 to 1024 (CPU time of one Ice Lake
// thread).
const char* refuse_gemm_post_ops(const KernelCall& call);
KernelRan run_gemm_post_ops(const KernelCall& call);

// Any program after a product of oneDNN.
const char* refuse_gemm_row_blocks(const KernelCall& call);
KernelRan run_gemm_row_blocks(const KernelCall& call);

}  // namespace epilogue::cpu
