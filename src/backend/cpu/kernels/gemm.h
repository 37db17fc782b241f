// Matrix products on the CPU: mm, addmm, bmm, with the bias in the epilogue.
#pragma once

#include "backend/backend.h"

namespace epilogue::cpu {

// f32, and 16-bit floats in f32, where the second factor is a parameter: it is kept in panels. Bits as
// panel_product.h promises.
const char* refuse_gemm_panels(const KernelCall& call);
KernelRan run_gemm_panels(const KernelCall& call);

// f32 and bf16 as they are, f16 (and bf16 where the CPU lacks the instructions) in f32; f32 accumulation
// throughout.
const char* refuse_gemm_onednn(const KernelCall& call);
KernelRan run_gemm_onednn(const KernelCall& call);

// f64, the reference the others are measured against.
const char* refuse_gemm_reference(const KernelCall& call);
KernelRan run_gemm_reference(const KernelCall& call);

// An inner size of 0: the product is the bias, or zero.
const char* refuse_gemm_no_inner(const KernelCall& call);
KernelRan run_gemm_no_inner(const KernelCall& call);

}  // namespace epilogue::cpu
