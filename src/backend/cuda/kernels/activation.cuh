// The activations in device code, for float, double and QuickFloat.
#pragma once

#include <math.h>

#include "backend/cuda/kernels/element.cuh"

namespace epilogue::cuda {

using ::erfc;
using ::exp;
// Declared before the formulas, which would otherwise find only their own general form.
__device__ inline float multiply_add(float a, float b, float c) { return fmaf(a, b, c); }
__device__ inline double multiply_add(double a, double b, double c) { return fma(a, b, c); }
__device__ inline QuickFloat multiply_add(QuickFloat a, QuickFloat b, QuickFloat c) {
  return QuickFloat(fmaf(a.value, b.value, c.value));
}

#define EPILOGUE_FN __device__
#include "op/activation-inl.h"
#undef EPILOGUE_FN

}  // namespace epilogue::cuda
