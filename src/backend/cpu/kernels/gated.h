// The gated MLP on the CPU, in one kernel: gated_linear and gated_mlp.
#pragma once

#include "backend/backend.h"

namespace epilogue::cpu {

// f32, bf16 by AMX or AVX512-BF16, otherwise as f16 in f32, with weights that are parameters. Nothing of the
// hidden size goes to memory but for few rows, nor is it rounded but for bf16 by those instructions. The bits
// of a row do not depend on threads, and on the other rows only where so many come that f32 goes to AMX
// (isa.h).
const char* refuse_gated(const KernelCall& call);
KernelRan run_gated(const KernelCall& call);

}  // namespace epilogue::cpu
