// oneDNN's matmul primitives, one per problem size and thread, with weights in oneDNN's packed layout or as
// they are.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include <oneapi/dnnl/dnnl.hpp>

#include "epilogue/tensor.h"

namespace epilogue::cpu {

enum class BiasKind : uint8_t { none, row, broadcast };

// What is done to each element of a product before it is stored, in order.
struct PostOp {
  enum class Kind : uint8_t { none, add, mul };
  Kind kind = Kind::none;
  DType dtype = DType::f32;  // of the matrix that it reads, contiguous
  bool one_row = false;      // the same for every row
  bool operator==(const PostOp&) const = default;
};
inline constexpr size_t kMaxPostOps = 4;

// Everything a primitive depends on. Strides count elements.
struct MatmulKey {
  int64_t m = 0, n = 0, k = 0;
  int64_t a_row = 0, a_column = 0;
  int64_t b_row = 0, b_column = 0;          // unused when packed
  int64_t bias_rows = 0, bias_columns = 0;  // of a broadcast bias: m or 1, n or 1; it is contiguous
  int32_t packed_layout = -1;               // an id of packed_layout_for(), or -1
  int32_t threads = 1;
  DType dtype = DType::f32;
  BiasKind bias = BiasKind::none;
  std::array<PostOp, kMaxPostOps> post{};
  bool operator==(const MatmulKey&) const = default;
};

// A primitive with the memory handles it is fed through: for the thread that made it.
class Matmul {
 public:
  // This thread's primitive for `key`, made on first use. The reference lives until the next call on this
  // thread.
  static Matmul& get(const MatmulKey& key);

  // `operands`: the matrices of the post-ops.
  void execute(const void* a, const void* b, const void* bias, void* c,
               std::span<const void* const> operands = {});
  const char* name() const { return name_; }  // "onednn_brgemm_avx512_f32"

  explicit Matmul(const MatmulKey& key);

 private:
  dnnl::matmul primitive_;
  dnnl::memory a_, b_, bias_, c_, scratchpad_;
  size_t scratch_bytes_ = 0;
  int bias_argument_ = 0, threads_ = 1;
  std::array<dnnl::memory, kMaxPostOps> operands_;
  std::array<int, kMaxPostOps> operand_arguments_{};  // 0: there is no such post-op
  const char* name_ = "";
};

// The layout oneDNN wants a [k, n] weight in, or -1 when it has none better than the plain one.
int32_t packed_layout_for(int64_t n, int64_t k, DType dtype);
size_t packed_bytes(int32_t layout);
// Rewrites a plain [k, n] matrix (strides in elements) of the layout's own dtype.
void pack(int32_t layout, const void* from, int64_t row_stride, int64_t column_stride, void* to);

}  // namespace epilogue::cpu
