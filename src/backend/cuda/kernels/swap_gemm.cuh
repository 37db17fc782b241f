// Middling batches, 65 to 1664 tokens: the two schedules of tile_gemm.cuh with the operands swapped, so that
// tokens come in steps of 8 and not of 128.
//
// 256 rows of weights, 128 of gate and the same 128 of up, are wgmma's rows, 104 to 208 tokens its columns.
// Each of two multiplying warpgroups takes 64 rows of both, so that gate and up of an output meet in the same
// thread. Or, in ping-pong, each has a tile of 128 rows to itself: an epilogue, which turns the outputs over
// (stmatrix) into rows of tokens, then runs under the other's products, but more is loaded for a product,
// which does not pay for batches of one piece, whose time is the memory's. Blocks that have other pieces of
// the tokens for the same weights run beside each other. All three sizes may have tails.
#pragma once

#include "backend/cuda/kernels/gemm_epilogue.cuh"
#include "backend/cuda/kernels/sm90.cuh"
#include "backend/cuda/kernels/sm90_wgmma.cuh"
#include "backend/cuda/kernels/tile_gemm.cuh"

namespace epilogue::cuda {

struct SwapArguments {
  CUtensorMap x, gate, up, out;  // without a gate, `gate` and `up` are both the weight
  EpilogueArguments epilogue;
  int n;                 // columns of the output
  int k_steps;           // stages per tile
  int tiles;             // of the weights
  int pieces;            // of the tokens
  bool weights_settled;  // no kernel that may still run writes the weights
};

template <class Element, bool is_gated, int token_columns, int weight_rows>
struct SwapShape {
  using T = Element;
  static constexpr bool gated = is_gated, ping_pong = weight_rows == 128;
  static_assert(ping_pong || weight_rows == 256);
  static constexpr int tokens = token_columns, rows = weight_rows, half = rows / 2;
  static constexpr int outputs = gated ? half : rows;
  static constexpr int depth = 64;  // of K per stage: rows of 128 bytes
  static constexpr int weight_bytes = rows * 128, stage_bytes = weight_bytes + tokens * 128;
  static constexpr int box_tokens = tokens % 16 == 0 ? 16 : 8, box_bytes = box_tokens * 128;
  static constexpr int room = 232448 - 1024;  // the rest is for barriers
  static constexpr int most_stages = (room - 4 * 2 * box_bytes) / stage_bytes;
  static constexpr int stages = most_stages < 8 ? most_stages : 8;
  static constexpr int most_buffers = (room - stages * stage_bytes) / (2 * box_bytes);  // of each warpgroup
  static constexpr int buffers = most_buffers < 8 ? most_buffers : 8, out_bytes = 2 * buffers * box_bytes;
  static constexpr int shared_bytes = 1024 + stages * stage_bytes + out_bytes;
  static constexpr int threads = 384;
  static_assert(stages >= 3 && buffers >= 4);
};

namespace swap {

using tile::Block;

struct Place {
  int output, token;
};
template <class S>
__device__ __forceinline__ Place place_of(const SwapArguments& a, int unit) {
  const int tile = unit / a.pieces, piece = unit - tile * a.pieces;
  return {tile * S::outputs, piece * S::tokens};
}
__device__ __forceinline__ int units(const SwapArguments& a) { return a.tiles * a.pieces; }

template <class S>
__device__ __forceinline__ void load_weights(const SwapArguments& a, Place at, int k, uint32_t stage,
                                             uint32_t barrier) {
  constexpr int second = S::gated ? 0 : S::half;
  sm90::load_box(stage, &a.gate, k, at.output, barrier, sm90::Keep::first_out);
  sm90::load_box(stage + S::half * 128, &a.up, k, at.output + second, barrier, sm90::Keep::first_out);
}
template <class S>
__device__ __forceinline__ void load_x(const SwapArguments& a, Place at, int k, uint32_t stage,
                                       uint32_t barrier) {
  sm90::load_box(stage + S::weight_bytes, &a.x, k, at.token, barrier, sm90::Keep::last_out);
}

template <class S>
__device__ __forceinline__ void produce(const SwapArguments& a, const Block<S>& b) {
  const int early = a.weights_settled ? min(S::stages, a.k_steps) : 0;
  Place at = place_of<S>(a, blockIdx.x);
  for (int i = 0; i < early; ++i) {
    sm90::barrier_expect(b.full(i), S::stage_bytes);
    load_weights<S>(a, at, i * S::depth, b.stage(i), b.full(i));
  }
  sm90::wait_for_previous_kernel();
  for (int i = 0; i < early; ++i) load_x<S>(a, at, i * S::depth, b.stage(i), b.full(i));
  tile::Ring<S::stages> ring;
  ring.skip(early);
  int step = early;
  for (int unit = blockIdx.x; unit < units(a); unit += gridDim.x, step = 0) {
    at = place_of<S>(a, unit);
    for (; step < a.k_steps; ++step, ring.advance()) {
      const uint32_t stage = b.stage(ring.stage), full = b.full(ring.stage);
      sm90::barrier_wait(b.empty(ring.stage), ring.phase ^ 1);
      sm90::barrier_expect(full, S::stage_bytes);
      load_weights<S>(a, at, step * S::depth, stage, full);
      load_x<S>(a, at, step * S::depth, stage, full);
    }
  }
  sm90::let_next_kernel_start();
}

template <class S, class Next>
__device__ __forceinline__ void multiply(const SwapArguments& a, const Block<S>& b, int first_row,
                                         tile::Ring<S::stages>& ring, float (&d)[2][S::tokens / 2],
                                         Next&& next) {
  using Mma = sm90::Wgmma<typename S::T, S::tokens>;
  uint32_t previous = 0;
  for (int step = 0; step < a.k_steps; ++step, ring.advance()) {
    const uint32_t stage = b.stage(ring.stage);
    const uint64_t w = sm90::tile_descriptor(stage + first_row * 128),
                   x = sm90::tile_descriptor(stage + S::weight_bytes);
    sm90::barrier_wait(b.full(ring.stage), ring.phase);
    sm90::wgmma_begin();
#pragma unroll
    for (int k = 0; k < S::depth / 16; ++k) {
      Mma::run(d[0], w + k * 2, x + k * 2, step | k);
      Mma::run(d[1], w + S::half * 8 + k * 2, x + k * 2, step | k);
    }
    sm90::wgmma_commit();
    if (step > 0) {
      sm90::wgmma_wait<1>();
      tile::release(previous);
    }
    previous = b.empty(ring.stage);
  }
  next();
  sm90::wgmma_wait<0>();
  sm90::wgmma_pin(d[0]), sm90::wgmma_pin(d[1]);
  tile::release(previous);
}

// `column` is the output of the thread's first row; its second is 8 further.
template <class S>
__device__ __forceinline__ void add_bias(const void* bias, int column, int n, float (&d)[S::tokens / 2]) {
  if (bias == nullptr) return;
  const auto* values = static_cast<const typename S::T*>(bias);
  const float low = column < n ? static_cast<float>(values[column]) : 0.f,
              high = column + 8 < n ? static_cast<float>(values[column + 8]) : 0.f;
#pragma unroll
  for (int j = 0; j < S::tokens / 8; ++j)
    d[4 * j] += low, d[4 * j + 1] += low, d[4 * j + 2] += high, d[4 * j + 3] += high;
}

// 64 outputs of all tokens, box by box. The thread that stores waits, before the barrier of a box, until the
// buffer of the next one has been read.
template <class S, class Combine>
__device__ __forceinline__ void store_outputs(const SwapArguments& a, uint32_t out, int group, Place at,
                                              uint32_t& buffer, const float (&gate)[S::tokens / 2],
                                              const float (&up)[S::tokens / 2], Combine&& combine) {
  using T = typename S::T;
  const int thread = threadIdx.x % 128, lane = thread % 32;
  // The row whose address this lane gives to stmatrix: a token's 8 outputs.
  const int row = lane % 8 + (S::box_tokens == 16 ? lane / 16 * 8 : 0);
  const uint32_t offset = row * 128 + ((thread / 32 * 2 + lane / 8 % 2) ^ (row % 8)) * 16;
#pragma unroll
  for (int box = 0; box < S::tokens / S::box_tokens; ++box) {
    constexpr int pairs = S::box_tokens / 4;
    float2 g[pairs], u[pairs];
#pragma unroll
    for (int i = 0; i < pairs; ++i) {
      const int from = 2 * (box * pairs + i);
      g[i] = make_float2(gate[from], gate[from + 1]), u[i] = make_float2(up[from], up[from + 1]);
    }
    if (a.epilogue.exact) round_all<T>(g), round_all<T>(u);
    uint32_t packed[pairs];
#pragma unroll
    for (int i = 0; i < pairs; ++i) {
      const float2 o = combine(g[i], u[i]);
      packed[i] = sm90::pack(o.x, o.y, T{});
    }
    const uint32_t to = out + buffer * S::box_bytes;
    if constexpr (S::box_tokens == 16)
      sm90::store_matrices_turned(to + offset, packed[0], packed[1], packed[2], packed[3]);
    else
      sm90::store_matrices_turned(to + offset, packed[0], packed[1]);
    sm90::fence_async_proxy();
    if (thread == 0) sm90::store_wait_read<S::buffers - 2>();
    sm90::named_barrier(1 + group, 128);
    if (thread == 0) {
      sm90::store_box(&a.out, to, at.output, at.token + box * S::box_tokens);
      sm90::store_commit();
    }
    if (++buffer == S::buffers) buffer = 0;
  }
}

template <class S>
__device__ __forceinline__ void finish(const SwapArguments& a, uint32_t out, int group, Place at,
                                       uint32_t& buffer, float (&d)[2][S::tokens / 2]) {
  const int column = at.output + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
  add_bias<S>(a.epilogue.gate_bias, column, a.n, d[0]);
  add_bias<S>(S::gated ? a.epilogue.up_bias : a.epilogue.gate_bias, column + (S::gated ? 0 : S::half), a.n,
              d[1]);
  with_activation(a.epilogue.act, [&]<Act act>() {
    const auto combine = [](float2 gate, float2 up) { return combined<act, S::gated>(gate, up); };
    store_outputs<S>(a, out, group, at, buffer, d[0], d[1], combine);
    if constexpr (!S::gated)
      store_outputs<S>(a, out, group, {at.output + S::half, at.token}, buffer, d[1], d[0], combine);
  });
}

template <class S>
__device__ __forceinline__ void consume(const SwapArguments& a, const Block<S>& b, int group) {
  const uint32_t out = b.out() + group * S::buffers * S::box_bytes;
  tile::Ring<S::stages> ring;
  uint32_t buffer = 0;
  int turn = 0;
  const int stride = gridDim.x, first_row = S::ping_pong ? 0 : group * 64;
  for (int unit = blockIdx.x; unit < units(a); unit += stride, turn ^= 1) {
    if (S::ping_pong && turn != group) {
      ring.skip(a.k_steps);
      continue;
    }
    if (S::ping_pong && unit >= stride) tile::wait_for_turn(group);
    float d[2][S::tokens / 2];
    multiply<S>(a, b, first_row, ring, d, [&] {
      if (S::ping_pong && unit + stride < units(a)) tile::pass_turn(group);
    });
    Place at = place_of<S>(a, unit);
    at.output += first_row;
    finish<S>(a, out, group, at, buffer, d);
  }
  if (threadIdx.x % 128 == 0) sm90::store_wait_read<0>();
}

}  // namespace swap

template <class S>
__global__ __launch_bounds__(S::threads, 1) void swap_gemm(const __grid_constant__ SwapArguments arguments) {
  extern __shared__ __align__(1024) uint8_t shared[];
  const tile::Block<S> block{sm90::shared_address(shared)};
  if (threadIdx.x == 0) {
    sm90::prefetch_map(&arguments.x), sm90::prefetch_map(&arguments.gate);
    sm90::prefetch_map(&arguments.up), sm90::prefetch_map(&arguments.out);
    for (int s = 0; s < S::stages; ++s) {
      sm90::barrier_init(block.full(s), 1);
      sm90::barrier_init(block.empty(s), S::ping_pong ? 4 : 8);  // a multiplying warp each
    }
    sm90::barrier_init_fence();
  }
  __syncthreads();
  const int group = threadIdx.x / 128;
  if (group == 0) {
    sm90::give_registers<24>();
    if (threadIdx.x == 0) swap::produce<S>(arguments, block);
    __syncwarp();
  } else {
    sm90::take_registers<240>();
    swap::consume<S>(arguments, block, group - 1);
  }
}

}  // namespace epilogue::cuda
