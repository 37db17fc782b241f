// Small batches: the weights are the large operand and stream through shared memory once, at memory speed.
//
// Operands are swapped: 64 rows of a weight are wgmma's 64 rows, the tokens its 8 to 192 columns. Batches
// that waste much of 128 rows of tokens are taken in several such columns of tokens. A warpgroup takes two
// such blocks: gated, 64 rows of gate and the same 64 of up, so that both sums of an output meet in one
// thread. The blocks of a cluster split K between them and add their partial sums through distributed shared
// memory, always in the order of their ranks: the same bits on every run. The copy engine loads weights as
// deep as shared memory holds; weights do not depend on the kernel before, so with a dependent launch they
// are on their way before that one has ended.
#pragma once

#include "backend/cuda/kernels/gemm_epilogue.cuh"
#include "backend/cuda/kernels/sm90.cuh"
#include "backend/cuda/kernels/sm90_wgmma.cuh"

namespace epilogue::cuda {

struct SkinnyArguments {
  CUtensorMap x, gate, up;  // without a gate, `gate` and `up` are both the weight
  EpilogueArguments epilogue;
  void* out;
  int64_t out_stride;    // elements between tokens
  int m, n;              // tokens, columns of the output
  int token_tiles;       // neighbouring blocks that read the same weights for other tokens
  int k_steps;           // stages of K, over the whole cluster
  bool weights_settled;  // no kernel that may still run writes the weights
};

template <class Element, bool is_gated, int weight_rows, int token_columns, int split_of_k, int blocks_per_sm>
struct SkinnyShape {
  using T = Element;
  static constexpr bool gated = is_gated;
  static constexpr int rows = weight_rows, tokens = token_columns, split = split_of_k;
  static constexpr int groups = rows > 128 ? 2 : 1,
                       row_blocks = rows / 64 / groups;  // warpgroups, wgmmas of each
  static constexpr int outputs = gated ? rows / 2 : rows;
  static constexpr int depth = 64;  // of K per stage: rows of 128 bytes
  static constexpr int weight_bytes = rows * 128, stage_bytes = weight_bytes + tokens * 128;
  static constexpr int partial_pitch =
      weight_rows + 4;  // floats; the 4 keep a warp's stores in different banks
  static constexpr int shared_limit = (blocks_per_sm == 1 ? 232448 : 233472 / blocks_per_sm - 1024),
                       slack = 1024;
  static constexpr int most_stages = (shared_limit - slack) / stage_bytes;
  static constexpr int stages = most_stages < 16 ? most_stages : 16;
  static constexpr int shared_bytes = slack + stages * stage_bytes;
  // More sums than a thread's share of the registers: a whole warpgroup stands by the producer to give up its
  // own.
  static constexpr bool many_sums = row_blocks * tokens / 2 > 128;
  static constexpr int threads = 128 * groups + (many_sums ? 128 : 32), per_sm = blocks_per_sm;
  static_assert(stages >= 2 && tokens * partial_pitch * 4 <= stages * stage_bytes);
};

namespace skinny {

template <class S>
__device__ __forceinline__ void load_weights(const SkinnyArguments& a, uint32_t to, uint32_t barrier,
                                             int tile, int step) {
  constexpr int half = S::rows / 2;
  const int row = tile * S::outputs, k = step * S::depth;
  const sm90::Keep keep = a.token_tiles == 1 ? sm90::Keep::first_out : sm90::Keep::normal;
  sm90::load_box(to, &a.gate, k, row, barrier, keep);
  sm90::load_box(to + half * 128, &a.up, k, row + (S::gated ? 0 : half), barrier, keep);
}

template <class S>
__device__ __forceinline__ void produce(const SkinnyArguments& a, uint32_t stages, uint32_t full,
                                        uint32_t empty, int tile, int token, int first, int last) {
  const int early = a.weights_settled ? min(last - first, S::stages) : 0;
  for (int i = 0; i < early; ++i) {
    sm90::barrier_expect(full + 8 * i, S::stage_bytes);
    load_weights<S>(a, stages + i * S::stage_bytes, full + 8 * i, tile, first + i);
  }
  sm90::wait_for_previous_kernel();
  sm90::let_next_kernel_start();
  int stage = 0;
  uint32_t phase = 1;
  for (int step = first; step < last; ++step) {
    const uint32_t to = stages + stage * S::stage_bytes, barrier = full + 8 * stage;
    if (step - first >= early) {
      sm90::barrier_wait(empty + 8 * stage, phase);
      sm90::barrier_expect(barrier, S::stage_bytes);
      load_weights<S>(a, to, barrier, tile, step);
    }
    sm90::load_box(to + S::weight_bytes, &a.x, step * S::depth, token, barrier, sm90::Keep::last_out);
    if (++stage == S::stages) stage = 0, phase ^= 1;
  }
}

template <class S>
__device__ __forceinline__ void multiply(uint32_t stages, uint32_t full, uint32_t empty, int steps, int group,
                                         float (&d)[S::row_blocks][S::tokens / 2]) {
  using Mma = sm90::Wgmma<typename S::T, S::tokens>;
#pragma unroll
  for (int block = 0; block < S::row_blocks; ++block) {
#pragma unroll
    for (int i = 0; i < S::tokens / 2; ++i) d[block][i] = 0.f;
  }
  int stage = 0;
  uint32_t phase = 0, previous = 0;
  for (int step = 0; step < steps; ++step) {
    const uint32_t at = stages + stage * S::stage_bytes;
    const uint64_t w = sm90::tile_descriptor(at + group * S::row_blocks * 64 * 128),
                   x = sm90::tile_descriptor(at + S::weight_bytes);
    sm90::barrier_wait(full + 8 * stage, phase);
    sm90::wgmma_begin();
#pragma unroll
    for (int k = 0; k < S::depth / 16; ++k) {
#pragma unroll
      for (int block = 0; block < S::row_blocks; ++block)
        Mma::run(d[block], w + block * 512 + k * 2, x + k * 2, 1);
    }
    sm90::wgmma_commit();
    if (step > 0) {
      sm90::wgmma_wait<1>();
      if (threadIdx.x % 32 == 0) sm90::barrier_arrive(previous);
    }
    previous = empty + 8 * stage;
    if (++stage == S::stages) stage = 0, phase ^= 1;
  }
  sm90::wgmma_wait<0>();
#pragma unroll
  for (int block = 0; block < S::row_blocks; ++block) sm90::wgmma_pin(d[block]);
}

// partial[token][weight row], over the stages that nobody needs any more.
template <class S>
__device__ __forceinline__ void write_partial(float* partial, int group,
                                              const float (&d)[S::row_blocks][S::tokens / 2]) {
  const int thread = threadIdx.x % 128, row = group * S::row_blocks * 64 + thread / 32 * 16 + thread % 32 / 4,
            token = thread % 4 * 2;
#pragma unroll
  for (int block = 0; block < S::row_blocks; ++block) {
#pragma unroll
    for (int j = 0; j < S::tokens / 8; ++j) {
      float* to = partial + (8 * j + token) * S::partial_pitch + row + 64 * block;
      to[0] = d[block][4 * j], to[S::partial_pitch] = d[block][4 * j + 1];
      to[8] = d[block][4 * j + 2], to[S::partial_pitch + 8] = d[block][4 * j + 3];
    }
  }
}

// Eight sums of one token, added over the cluster in the order of ranks.
template <class S>
__device__ __forceinline__ void gather(const float* partial, int token, int row, float (&sum)[8]) {
  const uint32_t at = sm90::shared_address(partial + token * S::partial_pitch + row);
#pragma unroll
  for (int i = 0; i < 8; ++i) sum[i] = 0.f;
#pragma unroll
  for (int rank = 0; rank < S::split; ++rank) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float4 v =
          S::split == 1
              ? *reinterpret_cast<const float4*>(partial + token * S::partial_pitch + row + 4 * half)
              : sm90::load_shared_of(at + 16 * half, rank);
      sum[4 * half] += v.x, sum[4 * half + 1] += v.y, sum[4 * half + 2] += v.z, sum[4 * half + 3] += v.w;
    }
  }
}

// The cluster's threads share the outputs, eight neighbouring columns of a token at a time.
template <class S, Act act>
__device__ __forceinline__ void write_outputs(const SkinnyArguments& a, const float* partial, int tile,
                                              int first_token, int rank) {
  using T = typename S::T;
  constexpr int chunks = S::outputs / 8;
  const EpilogueArguments& e = a.epilogue;
  const int tokens = min(S::tokens, a.m - first_token);
  for (int i = rank * 128 * S::groups + threadIdx.x; i < tokens * chunks; i += S::split * 128 * S::groups) {
    const int token = i / chunks, output = i % chunks * 8, column = tile * S::outputs + output;
    if (column >= a.n) continue;
    float gate[8], up[8];
    if constexpr (S::gated) {
      gather<S>(partial, token, output, gate), gather<S>(partial, token, output + S::outputs, up);
    } else {
      gather<S>(partial, token, output, gate);
    }
    uint32_t packed[4];
#pragma unroll
    for (int p = 0; p < 4; ++p) {
      float2 u = make_float2(0.f, 0.f), up_bias = u;
      if constexpr (S::gated)
        u = make_float2(up[2 * p], up[2 * p + 1]), up_bias = bias_pair<T>(e.up_bias, column + 2 * p);
      const float2 o =
          finished<T, act, S::gated>(make_float2(gate[2 * p], gate[2 * p + 1]), u,
                                     bias_pair<T>(e.gate_bias, column + 2 * p), up_bias, e.exact);
      packed[p] = sm90::pack(o.x, o.y, T{});
    }
    *reinterpret_cast<uint4*>(static_cast<T*>(a.out) + (first_token + token) * a.out_stride + column) =
        make_uint4(packed[0], packed[1], packed[2], packed[3]);
  }
}

}  // namespace skinny

template <class S>
__global__ __launch_bounds__(S::threads,
                             S::per_sm) void skinny_gemm(const __grid_constant__ SkinnyArguments arguments) {
  extern __shared__ __align__(1024) uint8_t shared[];
  const uint32_t stages = sm90::shared_address(shared), full = stages + S::stages * S::stage_bytes,
                 empty = full + 8 * S::stages;
  if (threadIdx.x == 0) {
    for (int s = 0; s < S::stages; ++s) {
      sm90::barrier_init(full + 8 * s, 1);
      sm90::barrier_init(empty + 8 * s, 4 * S::groups);  // a multiplying warp each
    }
    sm90::barrier_init_fence();
  }
  __syncthreads();
  const int unit = blockIdx.x / S::split, rank = blockIdx.x % S::split;  // a cluster's blocks are neighbours
  const int tile = unit / arguments.token_tiles, token = unit % arguments.token_tiles * S::tokens;
  const int first = rank * arguments.k_steps / S::split, last = (rank + 1) * arguments.k_steps / S::split;
  const int group = threadIdx.x / 128;
  float* partial = reinterpret_cast<float*>(shared);
  if (group == S::groups) {
    if constexpr (S::many_sums) sm90::give_registers<24>();
    if (threadIdx.x == 128 * S::groups)
      skinny::produce<S>(arguments, stages, full, empty, tile, token, first, last);
    __syncwarp();
    if constexpr (S::split > 1) sm90::cluster_sync();
  } else {
    if constexpr (S::many_sums) sm90::take_registers<240>();
    float d[S::row_blocks][S::tokens / 2];
    skinny::multiply<S>(stages, full, empty, last - first, group, d);
    sm90::named_barrier(1, 128 * S::groups);  // the stages are free in every warpgroup
    skinny::write_partial<S>(partial, group, d);
    if constexpr (S::split == 1)
      sm90::named_barrier(1, 128 * S::groups);
    else
      sm90::cluster_sync();
    with_activation(arguments.epilogue.act,
                    [&]<Act act>() { skinny::write_outputs<S, act>(arguments, partial, tile, token, rank); });
  }
  if constexpr (S::split > 1) sm90::cluster_meet();  // mates may still read this block's sums
}

}  // namespace epilogue::cuda
