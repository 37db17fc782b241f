// add, mul and the activations, alone and times a gate's partner, on the CPU.
#pragma once

#include <cstdint>

#include "backend/backend.h"
#include "backend/cpu/kernels/strided_loop.h"
#include "backend/pointwise_function.h"

namespace epilogue::cpu {

struct PointwiseKernel {
  const char* name;               // "pointwise_gelu_tanh_avx512_f32"
  RowKernel row;                  // null: no such kernel (activations of integers)
  RowKernel streaming = nullptr;  // the same for results that no cache holds; null: no such kernel
};

// What runs for elements of `dtype` with the instruction set in use. 16-bit floats are computed in f32 and
// rounded once, to nearest even; integers wrap.
PointwiseKernel pointwise_kernel(Pointwise function, DType dtype);

// Serves the ops of class pointwise; the inputs have the output's dtype and broadcast to its shape.
KernelRan run_pointwise(const KernelCall& call);

}  // namespace epilogue::cpu
