#include "backend/cuda/gemm_problem.h"

#include <algorithm>

#include <fmt/format.h>

#include "backend/cuda/program.h"
#include "backend/cuda/tf32.h"

namespace epilogue::cuda {
namespace {

struct Matrix {
  bool fits = false, columns = false;
  int64_t ld = 0;
};

Matrix layout_of(const Tensor& t) {
  const int64_t rows = t.size(-2), columns = t.size(-1), row = t.stride(-2), column = t.stride(-1);
  if ((column == 1 || columns == 1) && (row >= columns || rows == 1))
    return {true, false, rows == 1 ? columns : row};
  if ((row == 1 || rows == 1) && (column >= rows || columns == 1))
    return {true, true, columns == 1 ? rows : column};
  return {};
}

const Tensor& left(const KernelCall& call) { return call.inputs[call.op == Op::addmm ? 1 : 0]; }
const Tensor& right(const KernelCall& call) { return call.inputs[call.op == Op::addmm ? 2 : 1]; }

void add_bias(GemmProblem& problem, const Tensor& bias, const Dims& sizes) {
  const bool one_row = bias.dim() < 2 || bias.size(0) == 1;
  const int64_t width = bias.dim() > 0 ? bias.size(-1) : 1;
  if (one_row && width == sizes[1] && (width == 1 || bias.stride(-1) == 1)) {
    problem.key.bias = GemmBias::row;
    problem.bias = bias.data();
    return;
  }
  problem.key.bias = GemmBias::matrix;
  const bool as_it_is =
      bias.dim() == 2 && bias.sizes() == sizes && bias.stride(1) == 1 && bias.stride(0) >= sizes[1];
  problem.bias_copy = as_it_is ? bias : bias.expand(sizes).contiguous();
  problem.bias = problem.bias_copy.data();
  problem.key.bias_ld = problem.bias_copy.stride(0);
}

}  // namespace

uint8_t alignment_of(const void* data, int64_t ld, DType dtype) {
  const auto bits = reinterpret_cast<uintptr_t>(data) | static_cast<uintptr_t>(ld) * dtype_size(dtype) | 16;
  return static_cast<uint8_t>(bits & (~bits + 1));
}

std::string GemmKey::to_string() const {
  return fmt::format("{} {}x{}x{}{} ld {},{} {}{} bias {} act {} align {}{}", dtype_name(dtype), m, n, k,
                     batch > 1 ? fmt::format(" x{}", batch) : "", a_ld, b_ld, a_columns ? 't' : 'n',
                     b_columns ? 't' : 'n', static_cast<int>(bias), act_name(act), alignment,
                     tf32                              ? " tf32"
                     : place == GemmPlace::gated       ? " gated"
                     : place == GemmPlace::after_gated ? " after it"
                     : place == GemmPlace::whole_mlp   ? fmt::format(" whole MLP to {}", last_n)
                                                       : "");
}

const char* refuse_layout(const KernelCall& call) {
  if (!layout_of(left(call)).fits || !layout_of(right(call)).fits)
    return "an operand's rows and columns are both apart";
  if (call.op == Op::bmm)
    for (const Tensor* t : {&left(call), &right(call)})
      if (t->stride(0) < 0) return "a batch runs backwards";
  return nullptr;
}

GemmProblem gemm_problem(const KernelCall& call) {
  const Tensor &a = left(call), &b = right(call);
  const Matrix a_layout = layout_of(a), b_layout = layout_of(b);
  GemmProblem problem;
  problem.key = {.m = a.size(-2), .n = b.size(-1), .k = a.size(-1)};
  GemmKey& key = problem.key;
  key.dtype = a.dtype();
  if (call.program) key.act = epilogue_activation(*call.program);
  key.tf32 = key.dtype == DType::f32 && allow_tf32();
  key.a_ld = a_layout.ld;
  key.b_ld = b_layout.ld;
  key.a_columns = a_layout.columns;
  key.b_columns = b_layout.columns;
  if (call.op == Op::bmm) {
    key.batch = a.size(0);
    key.a_stride = a.stride(0);
    key.b_stride = b.stride(0);
  }
  problem.a = a.data();
  problem.b = b.data();
  problem.c = const_cast<void*>(call.output.data());
  if (call.op == Op::addmm) add_bias(problem, call.inputs[0], call.output.sizes());
  key.alignment = std::min({alignment_of(problem.a, key.a_ld | key.a_stride, key.dtype),
                            alignment_of(problem.b, key.b_ld | key.b_stride, key.dtype),
                            alignment_of(problem.c, key.n, key.dtype)});
  if (problem.bias)
    key.alignment = std::min(key.alignment, alignment_of(problem.bias, key.bias_ld, key.dtype));
  return problem;
}

}  // namespace epilogue::cuda
