// The gated MLP on the CPU, in one kernel: gated_linear and gated_mlp.
#pragma once

#include "backend/backend.h"

namespace epilogue::cpu {

// f32, bf16 by AMX, bf16 and f16 in f32 (where the CPU has no other instructions for bf16), with weights that
// are parameters. Nothing of the hidden size goes to memory but for few rows, nor is it rounded but for AMX.
// The bits of a row depend neither on the other rows nor on threads.
const char* refuse_gated(const KernelCall& call);
KernelRan run_gated(const KernelCall& call);

}  // namespace epilogue::cpu
