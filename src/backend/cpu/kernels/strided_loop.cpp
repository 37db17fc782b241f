#include "backend/cpu/kernels/strided_loop.h"

#include <algorithm>
#include <utility>

#include "base/threads.h"

namespace epilogue::cpu {
namespace {

constexpr int64_t kGrain = 32768;     // elements a thread must have to be worth waking
constexpr int64_t kRowPiece = 16384;  // a longer row is cut, so that threads can share it
// With a strided operand rows are cut shorter and the second dimension runs inside: the cache lines which one
// piece touches are used up by the following rows before they leave L1.
constexpr int64_t kStridedPiece = 64;
constexpr int64_t kStaged = 256;  // elements brought side by side at a time

template <class T>
void gather(void* to, const char* from, int64_t stride, int64_t n) {
  T* elements = static_cast<T*>(to);
  for (int64_t i = 0; i < n; ++i) elements[i] = *reinterpret_cast<const T*>(from + i * stride);
}
template <class T>
void scatter(char* to, int64_t stride, const void* from, int64_t n) {
  const T* elements = static_cast<const T*>(from);
  for (int64_t i = 0; i < n; ++i) *reinterpret_cast<T*>(to + i * stride) = elements[i];
}

void gather(void* to, const char* from, int64_t stride, int64_t n, int element_size) {
  if (element_size == 2) return gather<uint16_t>(to, from, stride, n);
  if (element_size == 4) return gather<uint32_t>(to, from, stride, n);
  gather<uint64_t>(to, from, stride, n);
}
void scatter(char* to, int64_t stride, const void* from, int64_t n, int element_size) {
  if (element_size == 2) return scatter<uint16_t>(to, stride, from, n);
  if (element_size == 4) return scatter<uint32_t>(to, stride, from, n);
  scatter<uint64_t>(to, stride, from, n);
}

using Pointers = std::array<char*, StridedLoop::kMaxOperands>;

// A row of which some operand is strided or broadcast: in blocks, through buffers.
void run_staged(const StridedLoop& loop, RowKernel kernel, const Pointers& row, int64_t n) {
  alignas(64) char buffer[StridedLoop::kMaxOperands][kStaged * 8];
  for (int64_t begin = 0; begin < n; begin += kStaged) {
    const int64_t count = std::min(kStaged, n - begin);
    Pointers at{};
    for (int o = 0; o < loop.operands; ++o) {
      const LoopOperand& operand = loop.operand[o];
      const int64_t stride = operand.strides[0];
      const bool side_by_side = stride == operand.element_size;
      at[o] = side_by_side ? row[o] + begin * stride : buffer[o];
      const bool staged_already = stride == 0 && begin > 0;
      if (o > 0 && !side_by_side && !staged_already)
        gather(buffer[o], row[o] + begin * stride, stride, count, operand.element_size);
    }
    kernel(at[0], at[1], at[2], count);
    const LoopOperand& out = loop.operand[0];
    if (at[0] == buffer[0])
      scatter(row[0] + begin * out.strides[0], out.strides[0], buffer[0], count, out.element_size);
  }
}

// The loop nest around row pieces, fastest dimension first.
struct Nest {
  const StridedLoop& loop;
  bool staged = false;  // some operand's rows are not side by side
  int dims = 0;
  int piece_dim = 0;  // the one that counts pieces of a row
  int64_t piece = 0;  // elements of a piece, but for the last
  std::array<int64_t, kMaxDims + 1> sizes{};
  std::array<std::array<int64_t, kMaxDims + 1>, StridedLoop::kMaxOperands> strides{};

  explicit Nest(const StridedLoop& l);
  int64_t pieces() const;
  void run(RowKernel kernel, int64_t begin, int64_t end) const;
};

Nest::Nest(const StridedLoop& l) : loop(l) {
  bool strided = false;
  for (int o = 0; o < loop.operands; ++o) {
    const int64_t stride = loop.operand[o].strides[0];
    staged |= stride != loop.operand[o].element_size;
    strided |= stride != loop.operand[o].element_size && stride != 0;
  }
  const bool tiled = strided && loop.dims > 1;
  piece = std::min(loop.sizes[0], tiled ? kStridedPiece : kRowPiece);
  piece_dim = tiled ? 1 : 0;
  dims = loop.dims;
  for (int d = 0; d < dims; ++d) {
    const int source = d == piece_dim ? 0 : d == 0 ? 1 : d;
    sizes[d] = source == 0 ? (loop.sizes[0] + piece - 1) / piece : loop.sizes[source];
    for (int o = 0; o < loop.operands; ++o)
      strides[o][d] = loop.operand[o].strides[source] * (source == 0 ? piece : 1);
  }
}

int64_t Nest::pieces() const {
  int64_t count = 1;
  for (int d = 0; d < dims; ++d) count *= sizes[d];
  return count;
}

void Nest::run(RowKernel kernel, int64_t begin, int64_t end) const {
  std::array<int64_t, kMaxDims + 1> index{};
  Pointers at{};
  for (int o = 0; o < loop.operands; ++o) at[o] = loop.operand[o].data;
  for (int64_t d = 0, rest = begin; d < dims; ++d) {
    index[d] = rest % sizes[d];
    rest /= sizes[d];
    for (int o = 0; o < loop.operands; ++o) at[o] += index[d] * strides[o][d];
  }
  for (int64_t i = begin; i < end; ++i) {
    const int64_t n = std::min(piece, loop.sizes[0] - index[piece_dim] * piece);
    if (staged)
      run_staged(loop, kernel, at, n);
    else
      kernel(at[0], at[1], at[2], n);
    for (int d = 0; d < dims; ++d) {
      for (int o = 0; o < loop.operands; ++o) at[o] += strides[o][d];
      if (++index[d] < sizes[d]) break;
      index[d] = 0;
      for (int o = 0; o < loop.operands; ++o) at[o] -= strides[o][d] * sizes[d];
    }
  }
}

}  // namespace

StridedLoop StridedLoop::over(Tensor& output, std::span<const Tensor> inputs) {
  StridedLoop loop;
  loop.dims = output.dim();
  loop.operands = 1 + static_cast<int>(inputs.size());
  for (int o = 0; o < loop.operands; ++o) {
    const Tensor& tensor = o == 0 ? output : inputs[static_cast<size_t>(o - 1)];
    LoopOperand& operand = loop.operand[o];
    operand.element_size = static_cast<int>(dtype_size(tensor.dtype()));
    operand.data = static_cast<char*>(o == 0 ? output.mutable_data() : const_cast<void*>(tensor.data()));
    const int dims = tensor.dim();
    for (int d = 0; d < dims; ++d) {
      if (o == 0) loop.sizes[d] = tensor.sizes()[dims - 1 - d];
      const bool broadcast = tensor.sizes()[dims - 1 - d] == 1;
      operand.strides[d] = broadcast ? 0 : tensor.strides()[dims - 1 - d] * operand.element_size;
    }
  }
  loop.collapse();
  return loop;
}

void StridedLoop::collapse() {
  const auto move = [&](int from, int to) {
    sizes[to] = sizes[from];
    for (int o = 0; o < operands; ++o) operand[o].strides[to] = operand[o].strides[from];
  };
  const auto mergeable = [&](int inner, int outer) {
    for (int o = 0; o < operands; ++o)
      if (operand[o].strides[outer] != operand[o].strides[inner] * sizes[inner]) return false;
    return true;
  };
  int kept = 0;
  for (int d = 0; d < dims; ++d)
    if (sizes[d] != 1) move(d, kept++);
  for (int d = 1; d < kept; ++d)
    for (int e = d; e > 0 && operand[0].strides[e] < operand[0].strides[e - 1]; --e) {
      std::swap(sizes[e], sizes[e - 1]);
      for (int o = 0; o < operands; ++o) std::swap(operand[o].strides[e], operand[o].strides[e - 1]);
    }
  dims = 0;
  for (int d = 0; d < kept; ++d) {
    if (dims > 0 && mergeable(dims - 1, d))
      sizes[dims - 1] *= sizes[d];
    else
      move(d, dims++);
  }
  if (dims == 0) {  // one element, side by side with nothing
    dims = 1;
    sizes[0] = 1;
    for (int o = 0; o < operands; ++o) operand[o].strides[0] = operand[o].element_size;
  }
}

int64_t StridedLoop::numel() const {
  int64_t count = 1;
  for (int d = 0; d < dims; ++d) count *= sizes[d];
  return count;
}

int StridedLoop::run(RowKernel kernel) const {
  if (numel() == 0) return 1;
  const Nest nest(*this);
  const int64_t grain = std::max<int64_t>(1, kGrain / nest.piece);
  return parallel_for(nest.pieces(), grain,
                      [&](int64_t begin, int64_t end) { nest.run(kernel, begin, end); });
}

}  // namespace epilogue::cpu
