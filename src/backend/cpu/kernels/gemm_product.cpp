#include "backend/cpu/kernels/gemm_product.h"

#include <algorithm>

#include "backend/cpu/allocator.h"
#include "backend/cpu/cpu_info.h"
#include "backend/cpu/kernels/copy.h"
#include "base/intern.h"
#include "base/threads.h"
#include "tensor/storage.h"

namespace epilogue::cpu {
namespace {

// Below this many rows one oneDNN call over all threads is quickest: on 2 Ice Lake cores, f32, 768x3072, 3 to
// 14% quicker at M = 128 to 4096 than a call per thread and block of rows. At M = 8192 blocks of 256, which
// keep rows and products in cache, gave 274 GFLOP/s, one call 201 (peak 340).
constexpr int64_t kOneCallRows = 6000;
constexpr int64_t kBlockRows = 256;
// Rows that are converted to f32 first are split sooner, so that each thread converts its own, in blocks that
// fit L2.
constexpr int64_t kOneCallRowsThroughF32 = 128;
constexpr int64_t kBlockRowsThroughF32 = 64;
// So few rows are bound by the weight's bytes, and bf16 has half of them.
constexpr int64_t kEmulatedBf16Rows = 2;

// A contiguous copy in `dtype`, for operands that oneDNN cannot address or that are computed in another
// dtype.
struct Copied {
  detail::StorageRef storage;
  Matrix matrix;
};

Copied copy_matrix(Matrix from, int64_t rows, int64_t columns, DType from_type, DType to_type) {
  auto* data = const_cast<std::byte*>(from.data);
  const Tensor source = from_blob(data, {rows, columns}, {from_type}, {}, {from.row, from.column});
  const size_t bytes = static_cast<size_t>(rows * columns) * dtype_size(to_type);
  detail::StorageRef storage = Allocator::instance().allocate(bytes);
  Tensor target = Tensor::over(storage, to_type, {rows, columns}, {columns, 1}, 0);
  const Attrs none;
  run_copy({Op::to, none, std::span(&source, 1), target});
  const Matrix matrix{static_cast<const std::byte*>(storage.get()->data), columns, 1};
  return {std::move(storage), matrix};
}

// oneDNN takes matrices whose rows or columns are contiguous and do not overlap.
bool addressable(const Matrix& matrix, int64_t rows, int64_t columns) {
  const auto fits = [](int64_t inner, int64_t outer, int64_t inner_size, int64_t outer_size) {
    return (inner == 1 || inner_size == 1) && (outer >= inner_size || outer_size == 1);
  };
  return fits(matrix.column, matrix.row, columns, rows) || fits(matrix.row, matrix.column, rows, columns);
}

// A size of 1 leaves its stride free; oneDNN wants one that makes the matrix row-major or column-major.
Matrix tidy(Matrix matrix, int64_t rows, int64_t columns) {
  if (columns == 1) matrix.column = matrix.row == 1 ? rows : 1;
  if (rows == 1) matrix.row = matrix.column == 1 ? columns : 1;
  return matrix;
}

DType compute_type(const GemmProblem& problem) {
  if (problem.dtype == DType::f16) return DType::f32;
  if (problem.dtype == DType::bf16 && !has_native_bf16() &&
      !(has_emulated_bf16() && problem.m <= kEmulatedBf16Rows))
    return DType::f32;
  return problem.dtype;
}

void prepare_bias(Product& product, const GemmProblem& problem) {
  if (!problem.bias) return;
  product.bias_rows = problem.bias_row ? product.m : 1;
  product.bias_columns = problem.bias_column ? product.n : 1;
  const bool row = product.bias_rows == 1 && product.bias_columns == product.n;
  product.bias_kind = row ? BiasKind::row : BiasKind::broadcast;
  product.bias = {static_cast<const std::byte*>(problem.bias), product.bias_columns, 1};
  const bool contiguous = (problem.bias_column == 1 || product.bias_columns == 1) &&
                          (product.bias_rows == 1 || problem.bias_row == product.bias_columns);
  if (!contiguous || product.converts()) {
    const Matrix as_given{product.bias.data, problem.bias_row, problem.bias_column};
    Copied copied =
        copy_matrix(as_given, product.bias_rows, product.bias_columns, product.stored, product.compute);
    product.bias.data = copied.matrix.data;
    product.kept[0] = std::move(copied.storage);
  }
  if (product.bias_rows == 1) product.bias.row = 0;
}

}  // namespace

Product prepare_product(const GemmProblem& problem) {
  Product product;
  product.m = problem.m;
  product.n = problem.n;
  product.k = problem.k;
  product.stored = problem.dtype;
  product.compute = compute_type(problem);
  product.c = static_cast<std::byte*>(problem.c);
  prepare_bias(product, problem);
  product.a =
      tidy({static_cast<const std::byte*>(problem.a), problem.a_row, problem.a_column}, product.m, product.k);
  if (!addressable(product.a, product.m, product.k)) {
    Copied copied = copy_matrix(product.a, product.m, product.k, product.stored, product.stored);
    product.a = copied.matrix;
    product.kept[1] = std::move(copied.storage);
  }
  product.b =
      tidy({static_cast<const std::byte*>(problem.b), problem.b_row, problem.b_column}, product.k, product.n);
  const bool b_addressable = addressable(product.b, product.k, product.n);
  // A broadcast bias is a post-op that only the plain layout is sure to take, and packing reads what the
  // products read.
  if (problem.weight && product.bias_kind != BiasKind::broadcast && b_addressable)
    product.packed = packed_weight(problem, product.compute);
  if (product.packed) {
    product.b = {static_cast<const std::byte*>(product.packed->storage.get()->data), 0, 0};
    return product;
  }
  if (product.converts() || !b_addressable) {
    Copied copied = copy_matrix(product.b, product.k, product.n, product.stored, product.compute);
    product.b = copied.matrix;
    product.kept[2] = std::move(copied.storage);
  }
  return product;
}

namespace {

Matmul& matmul_for(const Product& product, int64_t rows, const Matrix& a, int threads) {
  MatmulKey key{.m = rows, .n = product.n, .k = product.k, .a_row = a.row, .a_column = a.column};
  key.b_row = product.b.row;
  key.b_column = product.b.column;
  key.bias_rows = product.bias_rows == product.m ? rows : product.bias_rows;
  key.bias_columns = product.bias_columns;
  key.packed_layout = product.packed ? product.packed->layout : -1;
  key.threads = threads;
  key.dtype = product.compute;
  key.bias = product.bias_kind;
  for (size_t i = 0; i < product.post.size(); ++i) key.post[i] = product.post[i].op;
  return Matmul::get(key);
}

}  // namespace

const char* multiply_rows(const Product& product, int64_t begin, int64_t end, int threads,
                          RowsTarget target) {
  const int64_t rows = end - begin;
  const std::byte* bias = product.bias.data + begin * product.bias.row * product.compute_size();
  std::array<const void*, kMaxPostOps> operands{};
  for (size_t i = 0; i < product.post.size(); ++i) {
    const auto& [op, matrix] = product.post[i];
    operands[i] = matrix.data + begin * matrix.row * static_cast<int64_t>(dtype_size(op.dtype));
  }
  Matrix a = product.a;
  a.data += begin * a.row * product.stored_size();
  std::byte* c = target.to ? target.to : product.c + begin * product.n * product.stored_size();
  if (!product.converts()) {
    Matmul& matmul = matmul_for(product, rows, a, threads);
    matmul.execute(a.data, product.b.data, bias, c, operands);
    return matmul.name();
  }
  const Copied wide = copy_matrix(a, rows, product.k, product.stored, product.compute);
  if (target.wide) {
    Matmul& matmul = matmul_for(product, rows, wide.matrix, threads);
    matmul.execute(wide.matrix.data, product.b.data, bias, c, operands);
    return matmul.name();
  }
  const auto size = static_cast<size_t>(rows * product.n * product.compute_size());
  const detail::StorageRef result = Allocator::instance().allocate(size);
  Matmul& matmul = matmul_for(product, rows, wide.matrix, threads);
  matmul.execute(wide.matrix.data, product.b.data, bias, result.get()->data, operands);
  copy_kernel(product.compute, product.stored).row(c, result.get()->data, nullptr, rows * product.n);
  return matmul.name();
}

KernelRan multiply_product(const Product& product) {
  const int threads = threads_for(product.flops());
  if (threads == 1 && product.m <= kBlockRows) return {multiply_rows(product, 0, product.m, 1), 1};
  if (product.m < (product.converts() ? kOneCallRowsThroughF32 : kOneCallRows))
    return {multiply_rows(product, 0, product.m, threads), threads};

  // Whole blocks per thread, so that most calls use the primitive of the same size.
  const int64_t most = product.converts() ? kBlockRowsThroughF32 : kBlockRows;
  const int64_t share = (product.m + threads - 1) / threads;
  const int64_t block = std::min(most, (share + 15) / 16 * 16);
  const char* name = nullptr;
  const int used = parallel_for((product.m + block - 1) / block, 1, [&](int64_t first, int64_t last) {
    const char* ran = nullptr;
    for (int64_t i = first; i < last; ++i)
      ran = multiply_rows(product, i * block, std::min((i + 1) * block, product.m), 1);
    if (first == 0) name = ran;
  });
  return {name, used};
}

const char* name_with_storage(const char* name, const Product& product) {
  if (!product.converts()) return name;
  const DType stored = product.stored;
  thread_local const char *last_in = nullptr, *last_out = nullptr;
  thread_local DType last_type = DType::f32;
  if (last_in != name || last_type != stored) {
    last_out = intern(std::string(name) + "_from_" + dtype_name(stored));
    last_in = name;
    last_type = stored;
  }
  return last_out;
}

}  // namespace epilogue::cpu
