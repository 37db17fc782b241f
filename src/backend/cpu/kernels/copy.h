// Moving elements between layouts and dtypes on the CPU: to, copy_ and fill_.
#pragma once

#include "backend/backend.h"
#include "backend/cpu/kernels/strided_loop.h"

namespace epilogue::cpu {

struct CopyKernel {
  const char* name;  // "copy_f32_bf16_avx512"
  RowKernel row;     // reads `a` alone
};

// What converts elements with the instruction set in use. Floats narrow to nearest even, through f32 on the
// way from f64 to 16 bits. Floats become integers by truncation; beyond the integer's range they saturate,
// and NaN gives 0. Integers narrow by wrapping.
CopyKernel copy_kernel(DType from, DType to);

// to and copy_: the last input, broadcast and converted, into the output. They may not overlap.
KernelRan run_copy(const KernelCall& call);

// fill_: attrs.value, converted, into every element of the output.
KernelRan run_fill(const KernelCall& call);

}  // namespace epilogue::cpu
