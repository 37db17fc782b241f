// The gated MLP on the CPU, in one kernel: gated_linear and gated_mlp.
#pragma once

#include "backend/backend.h"

namespace epilogue::cpu {

// f32, and bf16 and f16 in f32 (where the CPU has no instructions for bf16), with weights that are
// parameters. Nothing of the hidden size is rounded or goes to memory but for few rows. The bits of a row
// depend neither on the other rows nor on threads.
const char* refuse_gated(const KernelCall& call);
KernelRan run_gated(const KernelCall& call);

}  // namespace epilogue::cpu
