#include "backend/cpu/kernels/gemm_epilogue.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "backend/cpu/allocator.h"
#include "backend/cpu/kernels/gemm.h"
#include "backend/cpu/kernels/gemm_panels.h"
#include "backend/cpu/kernels/gemm_product.h"
#include "backend/cpu/kernels/program.h"
#include "base/check.h"
#include "base/intern.h"
#include "base/threads.h"
#include "tensor/storage.h"

namespace epilogue::cpu {
namespace {

size_t own_inputs(Op op) { return op == Op::addmm ? 3 : 2; }
// The product's factors; what the program makes of it may have another dtype.
const Tensor& rows_of(const KernelCall& call) { return call.inputs[own_inputs(call.op) - 2]; }
const Tensor& weight_of(const KernelCall& call) { return call.inputs[own_inputs(call.op) - 1]; }

// A matrix of the output's size that a post-op reads: contiguous, or one row for all.
const char* add_operand(const KernelCall& call, PostOp::Kind kind, int16_t value,
                        std::vector<ProductPostOp>& post) {
  const ProgramInput& input = call.program->inputs[static_cast<size_t>(value)];
  const Tensor& matrix = call.inputs[own_inputs(call.op) + static_cast<size_t>(input.operand)];
  const bool one_row = matrix.stride(0) == 0 || matrix.size(0) == 1;
  const bool side_by_side = matrix.stride(1) == 1 && matrix.size(1) > 1;
  if (!side_by_side || (!one_row && matrix.stride(0) != matrix.size(1)))
    return "a post-op reads contiguous matrices or one row for all";
  if (matrix.dtype() != DType::f32 && matrix.dtype() != DType::bf16) return "a post-op reads f32 or bf16";
  post.push_back({{kind, matrix.dtype(), one_row},
                  {static_cast<const std::byte*>(matrix.data()), one_row ? 0 : matrix.stride(0), 1}});
  return nullptr;
}

// Null when the program is such a sequence; `post` then holds it.
const char* post_ops_of(const KernelCall& call, std::vector<ProductPostOp>& post) {
  const PointwiseProgram& program = *call.program;
  const auto inputs = static_cast<int16_t>(program.inputs.size());
  int16_t now = -1;  // the product as it is after the steps so far
  for (int16_t i = 0; i < inputs; ++i) {
    const ProgramInput& input = program.inputs[static_cast<size_t>(i)];
    if (input.operand != ProgramInput::kProduct) continue;
    if (now >= 0 || input.column != 0) return "the program reads parts of the product";
    now = i;
  }
  if (program.outputs.size() != 1 || program.outputs[0].value != program.values() - 1 || now < 0)
    return "the program gives more than one result";
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const ProgramStep& step = program.steps[i];
    const bool first = step.a == now, second = step.b == now;
    if (first == second) return "the steps do not follow one another";
    if (step.op == Op::relu) return "oneDNN's relu makes 0 of NaN";
    if (step.op != Op::add && step.op != Op::mul)
      return "gelu, silu and rounding are quicker on a block in cache";
    const int16_t other = first ? step.b : step.a;
    if (other >= inputs || program.inputs[static_cast<size_t>(other)].operand == ProgramInput::kProduct)
      return "the steps do not follow one another";
    const auto kind = step.op == Op::add ? PostOp::Kind::add : PostOp::Kind::mul;
    if (const char* reason = add_operand(call, kind, other, post)) return reason;
    now = static_cast<int16_t>(inputs + static_cast<int16_t>(i));
  }
  return post.size() <= kMaxPostOps ? nullptr : "there are more than four post-ops";
}

// "onednn_brgemm_avx512_f32_gelu_tanh_mul": the product, then what its epilogue does. A thread keeps the last
// names, so that a call makes no text: programs are told apart by their ids, products by their interned
// names.
const char* name_with_epilogue(const char* product, const PointwiseProgram& program) {
  struct Named {
    uint64_t program = 0;
    const char *product = nullptr, *whole = nullptr;
  };
  thread_local std::array<Named, 16> names;
  Named& kept = names[program.id % names.size()];
  if (kept.program == program.id && kept.product == product) return kept.whole;
  std::string name = product;
  for (const ProgramStep& step : program.steps) name.append("_").append(step_name(step));
  kept = {program.id, product, intern(name)};
  return kept.whole;
}

// Without its program the call is an ordinary one.
KernelCall product_alone(const KernelCall& call) {
  return {call.op, call.attrs, call.inputs.first(own_inputs(call.op)), call.output};
}
GemmProblem problem_of(const KernelCall& call) { return gemm_problem(product_alone(call)); }

// Rows [begin, end) of every operand of the program; the product's rows are at `block`, in `dtype`.
ProgramLoop rows_loop(const KernelCall& call, int64_t begin, int64_t end, std::byte* block, DType dtype,
                      int64_t width) {
  ProgramLoop loop;
  loop.dims = 2;
  loop.sizes = {call.output.size(1), end - begin};
  const auto add = [&loop](const void* data, int64_t row, int64_t column, DType type) {
    const auto size = static_cast<int64_t>(dtype_size(type));
    loop.operand[static_cast<size_t>(loop.operands++)] = {
        .data = const_cast<char*>(static_cast<const char*>(data)),
        .element_size = static_cast<int>(size),
        .strides = {column * size, row * size}};
  };
  const auto at = [](const Tensor& tensor, int64_t row) {
    return static_cast<const char*>(tensor.data()) +
           row * tensor.stride(0) * static_cast<int64_t>(dtype_size(tensor.dtype()));
  };
  for (const Tensor& output : call.outputs) add(at(output, begin), output.stride(0), 1, output.dtype());
  loop.outputs = loop.operands;
  for (const ProgramInput& input : call.program->inputs) {
    if (input.operand == ProgramInput::kProduct) {
      add(block + input.column * static_cast<int64_t>(dtype_size(dtype)), width, 1, dtype);
      continue;
    }
    const Tensor& matrix = call.inputs[own_inputs(call.op) + static_cast<size_t>(input.operand)];
    add(at(matrix, begin), matrix.stride(0), matrix.stride(1), matrix.dtype());
  }
  loop.collapse();
  return loop;
}

constexpr int64_t kOneDnnBlockRows = 256, kOneDnnFewRows = 32;

std::optional<KernelRan> run_panel_blocks(const KernelCall& call, PanelForm form) {
  const PanelGemm gemm(form, product_alone(call));
  if (!gemm.layer.is_weights()) return {};
  const TileProgram program(*call.program, DType::f32);       // the product before it is rounded
  for (Tensor& output : call.outputs) output.mutable_data();  // raises the version
  const auto loop = [&](Span rows, const Rows& block) {
    return rows_loop(call, rows.begin, rows.end, reinterpret_cast<std::byte*>(block.data), DType::f32,
                     block.stride);
  };
  const int threads = threads_for(gemm.flops());
  int used = threads;
  // More rows of a thread are better cut into blocks that the program reads while they are in the cache.
  constexpr int64_t kMostThroughMemory = 64;
  if (gemm.x.count < std::min(gemm.layer.shape().few_rows, kMostThroughMemory) * threads) {
    const LeftBuffer x_copy = gemm.x.buffer(gemm.x.count, Reader::all_threads);
    const RowBuffer block(gemm.x.count, gemm.layer.n);
    multiply_by_columns(gemm.x.read({0, gemm.x.count}, x_copy), gemm.x.count, gemm.layer,
                        {block.data, DType::f32, gemm.layer.n}, threads);
    threads == 1 ? program.run_here(loop({0, gemm.x.count}, block))
                 : static_cast<void>(program.run(loop({0, gemm.x.count}, block)));
  } else {
    const RowShares shares(gemm.x.count, rows_of_block(gemm.layer), gemm.layer, threads);
    const LeftBuffer x_copies = gemm.x.buffer(shares.all_rows(), Reader::one_thread);
    const RowBuffer blocks(shares.all_rows(), gemm.layer.n);
    used = shares.run([&](int thread, const auto& next) {
      const LeftRows x_copy = x_copies.from_row(shares.row_of(thread));
      const Rows block = blocks.from_row(shares.row_of(thread));
      for (Span rows = next(); rows.size() > 0; rows = next()) {
        multiply_columns(gemm.x.read(rows, x_copy), rows.size(), gemm.layer, {0, gemm.layer.n}, block,
                         gemm.layer.at(0, 0));
        program.run_here(loop(rows, block));
      }
    });
  }
  if (gemm.not_finite) return {};
  return KernelRan{name_with_epilogue(gemm.name(), *call.program), used};
}

}  // namespace

const char* refuse_gemm_panel_blocks(const KernelCall& call) {
  if (weight_of(call).size(0) == 0) return "there is nothing to multiply";
  return refuse_gemm_panels(product_alone(call));
}

KernelRan run_gemm_panel_blocks(const KernelCall& call) {
  return run_in_panels(weight_of(call).dtype(), rows_of(call).size(0),
                       [&](PanelForm form) { return run_panel_blocks(call, form); });
}

const char* refuse_gemm_post_ops(const KernelCall& call) {
  if (weight_of(call).dtype() == DType::f64) return "oneDNN multiplies no f64 on the CPU";
  if (weight_of(call).size(0) == 0) return "there is nothing to multiply";
  std::vector<ProductPostOp> post;
  return post_ops_of(call, post);
}

KernelRan run_gemm_post_ops(const KernelCall& call) {
  Product product = prepare_product(problem_of(call));
  post_ops_of(call, product.post);
  try {
    const KernelRan ran = multiply_product(product);
    return {name_with_epilogue(name_with_storage(ran.name, product), *call.program), ran.threads};
  } catch (const dnnl::error& error) {
    fail("{}: oneDNN could not make a product with {}: {}", op_row(call.op).name, call.program->name,
         error.what());
  }
}

const char* refuse_gemm_row_blocks(const KernelCall& call) {
  if (weight_of(call).dtype() == DType::f64) return "oneDNN multiplies no f64 on the CPU";
  if (weight_of(call).size(0) == 0) return "there is nothing to multiply";
  return nullptr;
}

KernelRan run_gemm_row_blocks(const KernelCall& call) {
  const Product product = prepare_product(problem_of(call));
  const TileProgram program(*call.program, product.compute);  // the product before it is rounded
  for (Tensor& output : call.outputs) output.mutable_data();  // raises the version
  const int64_t row_bytes = product.n * product.compute_size();
  const auto run_rows = [&](int64_t begin, int64_t end, int threads) {
    const detail::StorageRef block =
        Allocator::instance().allocate(static_cast<size_t>((end - begin) * row_bytes));
    auto* data = static_cast<std::byte*>(block.get()->data);
    const char* name = multiply_rows(product, begin, end, threads, {.to = data, .wide = true});
    const ProgramLoop loop = rows_loop(call, begin, end, data, product.compute, product.n);
    threads == 1 ? program.run_here(loop) : static_cast<void>(program.run(loop));
    return name;
  };
  const int threads = threads_for(product.flops());
  const int64_t share = (product.m + threads - 1) / threads;
  const char* name = nullptr;
  int used = threads;
  if (share < kOneDnnFewRows) {
    name = run_rows(0, product.m, threads);
  } else {
    const int64_t block = std::min(kOneDnnBlockRows, (share + 15) / 16 * 16);
    const int64_t blocks = (product.m + block - 1) / block;
    used = parallel_for(blocks, threads == 1 ? blocks : 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        const char* ran = run_rows(i * block, std::min((i + 1) * block, product.m), 1);
        if (i == 0) name = ran;
      }
    });
  }
  return {name_with_epilogue(name_with_storage(name, product), *call.program), used};
}

}  // namespace epilogue::cpu
