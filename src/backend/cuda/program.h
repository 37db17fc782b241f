// Pointwise programs on CUDA: compiled by NVRTC from the text that codegen prints, loaded once, launched for
// any size.
#pragma once

#include "backend/backend.h"

namespace epilogue::cuda {

// Compiles and loads the program for the device, unless that was done; throws Error with the compiler's
// words.
void prepare_program(const PointwiseProgram& program, int device);
bool is_program_prepared(const PointwiseProgram& program, int device);

// Serves `fused`.
const char* refuse_program(const KernelCall& call);
KernelRan run_program(const KernelCall& call);

// The activation that a product's epilogue program is, as cuBLASLt has it; Act::none for any other program.
Act epilogue_activation(const PointwiseProgram& program);

// The product by the plain kernel, then the activation in place: for operands that cuBLASLt does not take.
const char* refuse_reference_epilogue(const KernelCall& call);
KernelRan run_reference_epilogue(const KernelCall& call);

}  // namespace epilogue::cuda
