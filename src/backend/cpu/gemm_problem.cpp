#include "backend/cpu/gemm_problem.h"

#include <omp.h>

#include "backend/cpu/packed_weight.h"
#include "base/threads.h"

namespace epilogue::cpu {
namespace {

const void* at(const Tensor& tensor, int64_t elements) {
  return static_cast<const std::byte*>(tensor.data()) +
         elements * static_cast<int64_t>(dtype_size(tensor.dtype()));
}

}  // namespace

GemmProblem gemm_problem(const KernelCall& call, int64_t batch) {
  const Tensor& a = call.inputs[call.op == Op::addmm ? 1 : 0];
  const Tensor& b = call.inputs[call.op == Op::addmm ? 2 : 1];
  const int64_t a_batch = call.op == Op::bmm ? batch * a.stride(0) : 0;
  const int64_t b_batch = call.op == Op::bmm ? batch * b.stride(0) : 0;
  GemmProblem problem{.m = a.size(-2), .n = b.size(-1), .k = a.size(-1), .dtype = a.dtype()};
  problem.a = at(a, a_batch);
  problem.a_row = a.stride(-2);
  problem.a_column = a.stride(-1);
  problem.b = at(b, b_batch);
  problem.b_row = b.stride(-2);
  problem.b_column = b.stride(-1);
  if (packs_weights() && call.op != Op::bmm && b.is_parameter()) problem.weight = &b;
  if (call.op == Op::addmm) {
    const Tensor& bias = call.inputs[0];
    problem.bias = bias.data();
    if (bias.dim() == 2 && bias.size(0) > 1) problem.bias_row = bias.stride(0);
    if (bias.dim() > 0 && bias.size(-1) > 1) problem.bias_column = bias.stride(-1);
  }
  const int64_t offset = batch * problem.m * problem.n * static_cast<int64_t>(dtype_size(problem.dtype));
  problem.c = static_cast<std::byte*>(const_cast<void*>(call.output.data())) + offset;
  return problem;
}

int threads_for(int64_t flops) {
  constexpr int64_t kOneThread = 1 << 20;  // below, waking a second thread costs more than it saves
  return omp_in_parallel() || flops < kOneThread ? 1 : thread_count();
}

}  // namespace epilogue::cpu
