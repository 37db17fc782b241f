// A product of up to eight tokens that stands alone, between kernels of other kinds: as row_dot, whole warps
// read rows of weights straight from memory, but the tensor cores multiply. It takes little shared memory, so
// that nothing drains before it or after it (`eager`, 1 x 4096 x 14336: 89 us, 100 to 107 by skinny_gemm,
// which is quicker than it when it follows its own kind).
//
// 16 rows of weights are the rows of mma.m16n8k16, the tokens its columns. A sum does not ask in which order
// K comes, so a lane takes 16 neighbouring bytes of its row, and of its token, for two steps of 16.
#pragma once

#include "backend/cuda/kernels/gemm_configs.h"
#include "backend/cuda/kernels/gemm_epilogue.cuh"
#include "backend/cuda/kernels/row_dot.cuh"

namespace epilogue::cuda {

// A block's eight warps share the K of two tiles of 16 rows.
template <class Element>
struct RowMmaShape {
  using T = Element;
  static constexpr bool gated = false;
  static constexpr int warps = kRowMmaWarps, threads = 32 * warps, tiles = kRowMmaRows / 16;
  static constexpr int outputs = kRowMmaRows;
  static constexpr int unroll = 4;  // 16-byte loads in flight per lane and row, each of 32 values of K
};

namespace row_mma {

#define EP_MULTIPLY(T, name)                                                                                 \
  __device__ __forceinline__ void multiply(float(&d)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, \
                                           uint32_t b0, uint32_t b1, T) {                                    \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." name "." name                                      \
                 ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                      \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                            \
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));                                    \
  }
EP_MULTIPLY(__nv_bfloat16, "bf16")
EP_MULTIPLY(__half, "f16")
#undef EP_MULTIPLY

// The two rows of a tile that a lane reads.
struct Rows {
  const uint4 *first, *second;
};
template <class S>
struct Weights {
  uint4 first[S::unroll][S::tiles], second[S::unroll][S::tiles];
};

// `at` counts 16 bytes along K, `end` is where they end; beyond it are zeros.
template <class S>
__device__ __forceinline__ void load(Weights<S>& w, const Rows (&rows)[S::tiles], int at, int end) {
  const uint4 zero = make_uint4(0, 0, 0, 0);
#pragma unroll
  for (int tile = 0; tile < S::tiles; ++tile) {
#pragma unroll
    for (int i = 0; i < S::unroll; ++i) {
      const bool inside = at + 4 * i < end;
      w.first[i][tile] = inside ? row_dot::load_weight(rows[tile].first + at + 4 * i) : zero;
      w.second[i][tile] = inside ? row_dot::load_weight(rows[tile].second + at + 4 * i) : zero;
    }
  }
}

template <class S>
__device__ __forceinline__ void accumulate(const RowArguments& a, const Weights<S>& w, int at, int end,
                                           float (&d)[S::tiles][4]) {
  using T = typename S::T;
  const int token = threadIdx.x % 32 / 4;
  const auto* x = reinterpret_cast<const uint4*>(static_cast<const uint16_t*>(a.x) + token * a.x_stride);
#pragma unroll
  for (int i = 0; i < S::unroll; ++i) {
    uint4 v = make_uint4(0, 0, 0, 0);
    if (token < a.m && at + 4 * i < end) v = x[at + 4 * i];
#pragma unroll
    for (int tile = 0; tile < S::tiles; ++tile) {
      const uint4 &first = w.first[i][tile], &second = w.second[i][tile];
      multiply(d[tile], first.x, second.x, first.y, second.y, v.x, v.y, T{});
      multiply(d[tile], first.z, second.z, first.w, second.w, v.z, v.w, T{});
    }
  }
}

}  // namespace row_mma

template <class S>
__global__ __launch_bounds__(S::threads, 2) void row_mma_gemm(const __grid_constant__ RowArguments a) {
  constexpr int pieces_of_sums = 2 * S::tiles;  // each a pair of accumulators: of rows that are 8 apart
  __shared__ float2 partial[S::warps][pieces_of_sums][32];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, first_column = blockIdx.x * S::outputs;
  row_mma::Rows rows[S::tiles];
#pragma unroll
  for (int tile = 0; tile < S::tiles; ++tile) {
    const auto row = [&](int column) {
      return reinterpret_cast<const uint4*>(static_cast<const uint16_t*>(a.gate) +
                                            min(column, a.n - 1) * a.gate_stride);
    };
    const int column = first_column + tile * 16 + lane / 4;
    rows[tile] = {row(column), row(column + 8)};
  }
  // A warp's share of K in whole turns of its loop, so that it starts at a multiple of 256 bytes.
  constexpr int turn = 4 * S::unroll;
  const int pieces = a.k / 8, turns = (pieces + turn - 1) / turn;
  const int begin = turns * warp / S::warps * turn, end = min(pieces, turns * (warp + 1) / S::warps * turn);
  int at = begin + lane % 4;

  row_mma::Weights<S> w;
  float d[S::tiles][4] = {};
  if (a.weights_settled) row_mma::load<S>(w, rows, at, end);
  sm90::wait_for_previous_kernel();
  if (!a.weights_settled) row_mma::load<S>(w, rows, at, end);
  for (;;) {
    row_mma::accumulate<S>(a, w, at, end, d);
    at += turn;
    if (at - lane % 4 >= end) break;
    row_mma::load<S>(w, rows, at, end);
  }
  sm90::let_next_kernel_start();

#pragma unroll
  for (int tile = 0; tile < S::tiles; ++tile) {
#pragma unroll
    for (int i = 0; i < 2; ++i) partial[warp][2 * tile + i][lane] = make_float2(d[tile][i], d[tile][i + 2]);
  }
  __syncthreads();
  if (warp >= pieces_of_sums) return;
  float2 sum = make_float2(0.f, 0.f);
  for (int from = 0; from < S::warps; ++from) {
    const float2 v = partial[from][warp][lane];
    sum.x += v.x, sum.y += v.y;
  }
  const int token = lane % 4 * 2 + warp % 2, column = first_column + warp / 2 * 16 + lane / 4;
  write_row_output<S>(a, token, column, sum.x, 0.f);
  write_row_output<S>(a, token, column + 8, sum.y, 0.f);
}

}  // namespace epilogue::cuda
