// A matrix product as cuBLASLt sees it. cuBLASLt stores columns side by side, we store rows: it computes the
// transposed product, with our second operand first, and no operand is moved.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "backend/backend.h"

namespace epilogue::cuda {

enum class GemmBias : uint8_t { none, row, matrix };  // row: added to every row, in the epilogue
// gated: two products and act(first) * second, by our own kernel; after_gated: the one that follows it at
// once; whole_mlp: both.
enum class GemmPlace : uint8_t { anywhere, gated, after_gated, whole_mlp };

// What the choice of an algorithm depends on, and nothing else: the key it is remembered by.
struct GemmKey {
  int64_t m = 0, n = 0, k = 0, batch = 1;
  int64_t last_n = 0;                       // of a whole MLP, whose n is the hidden tensor's
  int64_t a_ld = 0, b_ld = 0, bias_ld = 0;  // of our operands, in elements
  int64_t a_stride = 0, b_stride = 0;       // between the matrices of a batch
  DType dtype = DType::f32;
  bool a_columns = false, b_columns = false;  // stored column by column
  bool tf32 = false;
  GemmPlace place = GemmPlace::anywhere;
  GemmBias bias = GemmBias::none;
  Act act = Act::none;
  uint8_t alignment = 16;  // bytes, the least of all operands'; larger ones count as 16

  auto operator<=>(const GemmKey&) const = default;
  std::string to_string() const;
};

struct GemmProblem {
  GemmKey key;
  const void *a = nullptr, *b = nullptr, *bias = nullptr;
  void* c = nullptr;
  Tensor bias_copy;  // holds the memory of `bias` where it had to be laid out
};

// 16, or the largest power of two that divides the address and a row's bytes.
uint8_t alignment_of(const void* data, int64_t ld, DType dtype);

// Null, or why these operands fit no BLAS layout.
const char* refuse_layout(const KernelCall& call);
GemmProblem gemm_problem(const KernelCall& call);

}  // namespace epilogue::cuda
