#include <algorithm>

#include "backend/cpu/gemm_problem.h"
#include "backend/cpu/kernels/copy.h"
#include "backend/cpu/kernels/gemm.h"
#include "base/threads.h"

namespace epilogue::cpu {

const char* refuse_gemm_no_inner(const KernelCall& call) {
  return call.inputs.back().size(-2) == 0 ? nullptr : "the inner size is not 0";
}

KernelRan run_gemm_no_inner(const KernelCall& call) {
  const Attrs zero;
  if (call.op == Op::addmm) return run_copy({Op::copy_, zero, call.inputs.first(1), call.output});
  return run_fill({Op::fill_, zero, {}, call.output});
}

const char* refuse_gemm_reference(const KernelCall& call) {
  return call.output.dtype() == DType::f64 ? nullptr : "the reference is for f64 alone";
}

KernelRan run_gemm_reference(const KernelCall& call) {
  int threads = 1;
  const int64_t batches = call.op == Op::bmm ? call.output.size(0) : 1;
  for (int64_t batch = 0; batch < batches; ++batch) {
    const GemmProblem p = gemm_problem(call, batch);
    const auto *a = static_cast<const double*>(p.a), *b = static_cast<const double*>(p.b),
               *bias = static_cast<const double*>(p.bias);
    auto* c = static_cast<double*>(p.c);
    threads = parallel_for(p.m, std::max<int64_t>(1, (int64_t{1} << 19) / (p.n * p.k + 1)),
                           [&](int64_t begin, int64_t end) {
                             for (int64_t i = begin; i < end; ++i) {
                               double* row = c + i * p.n;
                               for (int64_t j = 0; j < p.n; ++j)
                                 row[j] = bias ? bias[i * p.bias_row + j * p.bias_column] : 0;
                               for (int64_t l = 0; l < p.k; ++l) {
                                 const double factor = a[i * p.a_row + l * p.a_column];
                                 for (int64_t j = 0; j < p.n; ++j)
                                   row[j] += factor * b[l * p.b_row + j * p.b_column];
                               }
                             }
                           });
  }
  return {"gemm_reference_f64", threads};
}

}  // namespace epilogue::cpu
