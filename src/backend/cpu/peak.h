// What this machine can do at best, measured: the ceilings that results are compared with. Each function
// measures on its first call, with thread_count() threads and for at most 60 ms, and returns that number ever
// after.
#pragma once

#include "epilogue/tensor.h"

namespace epilogue::cpu {

double peak_fma_gflops();          // f32 fused multiply-adds (two operations each) in registers
double peak_fma_f64_gflops();      // the same in f64
double peak_amx_bf16_gflops();     // bf16 tile products; 0 where the processor or the system offers no AMX
double peak_avx512_bf16_gflops();  // bf16 by vectors of pairs; 0 where AVX512-BF16 is not there or not in use
double copy_bandwidth_gbs();       // 1e9 bytes read plus written a second, buffers far larger than a usual L3

// The highest rate at which products of so many rows of `dtype` with a parameter can be computed here.
double peak_gflops(DType dtype, int64_t rows);

}  // namespace epilogue::cpu
