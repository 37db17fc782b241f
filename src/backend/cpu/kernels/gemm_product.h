// A matrix product brought into the form that oneDNN's primitives take, and its rows computed by them.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "backend/cpu/gemm_problem.h"
#include "backend/cpu/onednn.h"
#include "backend/cpu/packed_weight.h"

namespace epilogue::cpu {

// A matrix in memory: where it begins and how far apart its rows and columns are, in elements.
struct Matrix {
  const std::byte* data = nullptr;
  int64_t row = 0, column = 0;
};

// Work on the product before it is stored: an addition or multiplication with another matrix.
struct ProductPostOp {
  PostOp op;
  Matrix operand;  // row 0: the same for every row
};

// One product, with its operands brought into a form that the primitives take.
struct Product {
  int64_t m = 0, n = 0, k = 0;
  DType stored = DType::f32, compute = DType::f32;
  Matrix a, b;
  std::shared_ptr<const PackedWeight> packed;
  BiasKind bias_kind = BiasKind::none;
  Matrix bias;  // in `compute`; row 0: the same for every row
  int64_t bias_rows = 0, bias_columns = 0;
  std::vector<ProductPostOp> post;
  std::byte* c = nullptr;
  std::array<detail::StorageRef, 3> kept;  // what the copies above live in

  int64_t stored_size() const { return static_cast<int64_t>(dtype_size(stored)); }
  int64_t compute_size() const { return static_cast<int64_t>(dtype_size(compute)); }
  bool converts() const { return stored != compute; }
  int64_t flops() const { return 2 * m * n * k; }
};

Product prepare_product(const GemmProblem& problem);

// Rows [begin, end), on this thread or, with `threads`, on oneDNN's; returns the kernel's name. They go to
// their place in c, or to `to` when it is given, then in the compute type when `wide`.
struct RowsTarget {
  std::byte* to = nullptr;
  bool wide = false;
};
const char* multiply_rows(const Product& product, int64_t begin, int64_t end, int threads,
                          RowsTarget target = {});

// All rows, on as many threads and in such blocks as are quickest.
KernelRan multiply_product(const Product& product);

// The name with the dtype that the product is stored in, where that is another than it is computed in.
const char* name_with_storage(const char* name, const Product& product);

}  // namespace epilogue::cpu
