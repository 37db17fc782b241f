#include "backend/cpu/kernels/strided_loop.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/threads.h"

namespace epilogue::cpu {
namespace {

constexpr int64_t kGrain = 32768;    // elements a thread must have to be worth waking
constexpr int64_t kLongRow = 16384;  // a longer row is cut, so that threads can share it
constexpr int64_t kStagedRow = 512;  // the same where an operand passes through a buffer
constexpr int64_t kTileRow = 64;     // the same where a tile of rows does
constexpr int64_t kBufferBytes = 4096;

using Pointers = std::array<char*, StridedLoop::kMaxOperands>;

// 16 bytes of elements, the one width that every x86-64 and ARM machine has.
template <class T>
using Lanes [[gnu::vector_size(16)]] = T;

// a and b in turn, element by element: their lower halves, their upper halves.
template <class V, int... kIndex>
void interleave(V a, V b, V& lower, V& upper, std::integer_sequence<int, kIndex...>) {
  constexpr int n = sizeof...(kIndex);
  lower = __builtin_shufflevector(a, b, (kIndex / 2 + kIndex % 2 * n)...);
  upper = __builtin_shufflevector(a, b, (n / 2 + kIndex / 2 + kIndex % 2 * n)...);
}

// to[r * to_stride + i] = line i of `from` at r, for a square of as many elements as a vector has.
template <class T>
void transpose_square(T* to, int64_t to_stride, const char* from, int64_t from_stride) {
  constexpr int n = 16 / sizeof(T);
  Lanes<T> v[n], w[n];
  for (int i = 0; i < n; ++i) std::memcpy(&v[i], from + i * from_stride, 16);
  for (int step = 1; step < n; step *= 2) {
    for (int i = 0; i < n / 2; ++i)
      interleave(v[i], v[i + n / 2], w[2 * i], w[2 * i + 1], std::make_integer_sequence<int, n>());
    std::memcpy(v, w, sizeof(v));
  }
  for (int r = 0; r < n; ++r) std::memcpy(to + r * to_stride, &v[r], 16);
}

// to[r][i] = from[r * row_stride + i * stride].
template <class T>
void gather(char* to, const char* from, int64_t stride, int64_t n, int64_t row_stride, int64_t rows) {
  T* out = reinterpret_cast<T*>(to);
  constexpr int64_t kLine = kBufferBytes / kTileRow / static_cast<int64_t>(sizeof(T));
  constexpr int64_t kSquare = 16 / sizeof(T);
  if (row_stride == sizeof(T) && rows == kLine && n == kTileRow) {
    // A transposed operand: each of its cache lines is used up at once, and those of the tile after the next
    // are asked for.
    for (int64_t i = 0; i < kTileRow; i += kSquare) {
      for (int64_t k = 0; k < kSquare; ++k) __builtin_prefetch(from + (i + k) * stride + 128);
      for (int64_t r = 0; r < kLine; r += kSquare)
        transpose_square(out + r * kTileRow + i, kTileRow, from + i * stride + r * row_stride, stride);
    }
    return;
  }
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < n; ++i)
      out[r * n + i] = *reinterpret_cast<const T*>(from + r * row_stride + i * stride);
}
template <class T>
void scatter(char* to, int64_t stride, const char* from, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    *reinterpret_cast<T*>(to + i * stride) = reinterpret_cast<const T*>(from)[i];
}

// Calls f with an unsigned integer of `size` bytes.
template <class F>
void with_element(int size, const F& f) {
  if (size == 2) return f(uint16_t{});
  if (size == 4) return f(uint32_t{});
  f(uint64_t{});
}

// The loop nest around tiles: some elements of dimension 0 (a row) by some of dimension 1, which has the
// fastest count so that a tile finds the pages of its predecessor.
struct Nest {
  const StridedLoop& loop;
  bool staged = false;                     // some operand's rows are not side by side
  int64_t row = kLongRow, rows = 1;        // a tile's extents, but for the last ones
  std::array<int64_t, kMaxDims> counts{};  // of tiles along each dimension

  explicit Nest(const StridedLoop& l);
  void run(RowKernel kernel, int64_t begin, int64_t end) const;
  void run_tile(RowKernel kernel, Pointers at, int64_t n, int64_t tile_rows) const;
};

Nest::Nest(const StridedLoop& l) : loop(l), counts(l.sizes) {
  int strided_size = 0;
  for (int o = 0; o < loop.operands; ++o) {
    const int64_t stride = loop.operand[o].strides[0];
    const int size = loop.operand[o].element_size;
    staged |= stride != size;
    if (stride != size && stride != 0) strided_size = std::max(strided_size, size);
  }
  if (staged) row = kStagedRow;
  if (strided_size > 0 && loop.dims > 1) {
    row = kTileRow;
    rows = kBufferBytes / (kTileRow * strided_size);
  }
  counts[0] = (counts[0] + row - 1) / row;
  counts[1] = loop.dims > 1 ? (counts[1] + rows - 1) / rows : 1;
}

void Nest::run_tile(RowKernel kernel, Pointers at, int64_t n, int64_t tile_rows) const {
  alignas(64) char buffer[StridedLoop::kMaxOperands][kBufferBytes];
  std::array<int64_t, StridedLoop::kMaxOperands> staged_step{};
  const auto stage = [&](int o, const char* from, int64_t rows_staged) {
    const LoopOperand& operand = loop.operand[o];
    with_element(operand.element_size, [&](auto element) {
      gather<decltype(element)>(buffer[o], from, operand.strides[0], n, operand.strides[1], rows_staged);
    });
  };
  for (int o = 1; o < loop.operands; ++o) {
    const LoopOperand& operand = loop.operand[o];
    if (operand.strides[0] == 0 || operand.strides[0] == operand.element_size) continue;
    stage(o, at[o], tile_rows);
    staged_step[o] = n * operand.element_size;
  }
  for (int64_t r = 0; r < tile_rows; ++r) {
    Pointers use{};
    for (int o = 0; o < loop.operands; ++o) {
      const LoopOperand& operand = loop.operand[o];
      const bool side_by_side = operand.strides[0] == operand.element_size;
      if (o > 0 && operand.strides[0] == 0) stage(o, at[o] + r * operand.strides[1], 1);
      use[o] = side_by_side ? at[o] + r * operand.strides[1] : buffer[o] + r * staged_step[o];
    }
    kernel(use[0], use[1], use[2], n);
    const LoopOperand& out = loop.operand[0];
    if (use[0] == buffer[0])
      with_element(out.element_size, [&](auto element) {
        scatter<decltype(element)>(at[0] + r * out.strides[1], out.strides[0], buffer[0], n);
      });
  }
}

void Nest::run(RowKernel kernel, int64_t begin, int64_t end) const {
  for (int64_t tile = begin; tile < end; ++tile) {
    Pointers at{};
    const int64_t first_row = tile % counts[1] * rows, first = tile / counts[1] % counts[0] * row;
    for (int o = 0; o < loop.operands; ++o) {
      const LoopOperand& operand = loop.operand[o];
      at[o] = operand.data + first * operand.strides[0] + first_row * operand.strides[1];
      for (int64_t d = 2, rest = tile / (counts[0] * counts[1]); d < loop.dims; rest /= counts[d], ++d)
        at[o] += rest % counts[d] * operand.strides[d];
    }
    const int64_t n = std::min(row, loop.sizes[0] - first);
    if (!staged)
      kernel(at[0], at[1], at[2], n);
    else
      run_tile(kernel, at, n, loop.dims > 1 ? std::min(rows, loop.sizes[1] - first_row) : 1);
  }
}

}  // namespace

int run_rows(const StridedLoop& loop, RowKernel kernel) {
  const int64_t elements = loop.numel();
  if (elements == 0) return 1;
  const Nest nest(loop);
  if (loop.dims == 1 && elements <= kLongRow && !nest.staged) {  // the usual small tensor, at the least cost
    kernel(loop.operand[0].data, loop.operand[1].data, loop.operand[2].data, elements);
    return 1;
  }
  int64_t tiles = nest.counts[0] * nest.counts[1];
  for (int d = 2; d < loop.dims; ++d) tiles *= nest.counts[d];
  const int64_t tile_elements =
      std::min(nest.row, loop.sizes[0]) * (loop.dims > 1 ? std::min(nest.rows, loop.sizes[1]) : 1);
  return parallel_for(tiles, std::max<int64_t>(1, kGrain / tile_elements),
                      [&](int64_t begin, int64_t end) { nest.run(kernel, begin, end); });
}

}  // namespace epilogue::cpu
