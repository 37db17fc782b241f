// A matrix product as the CPU kernels see it: pointers, strides, and the epilogue's bias.
#pragma once

#include "backend/backend.h"

namespace epilogue::cpu {

// c = a b + bias, c contiguous. Strides count elements. Filled from a KernelCall by gemm_problem().
struct GemmProblem {
  int64_t m = 0, n = 0, k = 0;
  DType dtype = DType::f32;
  const void* a = nullptr;
  int64_t a_row = 0, a_column = 0;
  const void* b = nullptr;
  int64_t b_row = 0, b_column = 0;
  const Tensor* weight = nullptr;         // b as a parameter that may be packed; null otherwise
  const void* bias = nullptr;             // null: none
  int64_t bias_row = 0, bias_column = 0;  // 0 where it is broadcast
  void* c = nullptr;
};

// `batch` selects the matrices of a bmm.
GemmProblem gemm_problem(const KernelCall& call, int64_t batch = 0);

// The threads that so many operations deserve: one where that is too little to wake a second, or inside a
// parallel_for.
int threads_for(int64_t flops);

}  // namespace epilogue::cpu
