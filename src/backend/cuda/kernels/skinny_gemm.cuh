// Small batches: the weights are the large operand and stream through shared memory once, at memory speed.
//
// Operands are swapped: 64 rows of a weight are wgmma's 64 rows, the tokens its 16 to 176 columns; from 64
// columns on a batch may have several such pieces of tokens. Half of a block's rows are gate's, the other
// half the same rows of up, which meet in shared memory. The blocks of a cluster split K between them: each
// finishes the sums of some tokens, which the others send there from their registers, and adds them in the
// order of ranks: the same bits on every run. The copy engine loads weights as deep as shared memory holds;
// weights do not depend on the kernel before, so with a dependent launch they are on their way before that
// one has ended.
#pragma once

#include "backend/cuda/kernels/gemm_epilogue.cuh"
#include "backend/cuda/kernels/next_weight.cuh"
#include "backend/cuda/kernels/sm90.cuh"
#include "backend/cuda/kernels/sm90_wgmma.cuh"

namespace epilogue::cuda {

struct SkinnyArguments {
  CUtensorMap x, gate, up;  // without a gate, `gate` and `up` are both the weight
  EpilogueArguments epilogue;
  NextWeight next;
  void* out;
  int64_t out_stride;    // elements between tokens
  int m, n;              // tokens, columns of the output
  int outputs;           // columns of a block, at most the shape's: see even_share
  int token_tiles;       // neighbouring blocks that read the same weights for other tokens
  int k_steps;           // stages of K, over the whole cluster
  bool weights_settled;  // no kernel that may still run writes the weights
  bool weights_pass;     // read once, and too large to be in the cache still at the next call
};

template <class Element, bool is_gated, int weight_rows, int token_columns, int split_of_k, int blocks_per_sm>
struct SkinnyShape {
  using T = Element;
  static constexpr bool gated = is_gated;
  static constexpr int rows = weight_rows, tokens = token_columns, split = split_of_k;
  // wgmmas of a warpgroup for 16 of K, and warpgroups
  static constexpr int row_blocks = rows == 256 || (rows == 128 && tokens <= 64) ? 2 : 1,
                       groups = rows / 64 / row_blocks;
  static constexpr int outputs = gated ? rows / 2 : rows;
  static constexpr int depth = 64;  // of K per stage: rows of 128 bytes
  static constexpr int weight_bytes = rows * 128, stage_bytes = weight_bytes + tokens * 128;
  static constexpr int partial_pitch =
      weight_rows + 4;  // floats; the 4 keep a warp's stores in different banks
  // Of two to a multiprocessor, each leaves room for one of the next kernel that asks for more than half.
  static constexpr int shared_limit = blocks_per_sm == 1 ? 232448 : 108 * 1024, slack = 1024;
  static constexpr int sum_threads = 128 * groups;
  // A cluster's blocks take turns by groups of eight tokens: rank r finishes groups r, r + split, ... What
  // the others send of those lands behind the stages: of each block, group and wgmma four sums a thread.
  static constexpr int token_groups = tokens / 8, own_groups = (token_groups + split - 1) / split;
  static constexpr int landing_bytes = (split - 1) * own_groups * row_blocks * sum_threads * 16;
  static constexpr int most_stages = (shared_limit - slack - landing_bytes) / stage_bytes;
  static constexpr int stages = most_stages < 16 ? most_stages : 16;
  static constexpr int shared_bytes = slack + stages * stage_bytes + landing_bytes;
  static constexpr int loaders = 4, threads = sum_threads + 32 * loaders, per_sm = blocks_per_sm;
  // Stages whose weights are asked for before x is there to be asked for. Not all of them: x then stands
  // behind them in the copy engine's queue, and products begin when its first rows have come (64 x 1024 x
  // 4096, both kernels: all stages 11.3 us, three of four 10.7, half of them 11.0).
  static constexpr int early_stages = stages * 3 / 4;
  static_assert(stages >= 2 && own_groups * 8 * partial_pitch * 4 <= stages * stage_bytes);
};

namespace skinny {

template <class S>
__device__ __forceinline__ void load_weights(const SkinnyArguments& a, uint32_t to, uint32_t barrier,
                                             int tile, int step) {
  const int row = tile * a.outputs, k = step * S::depth;
  const sm90::Keep keep = a.weights_pass ? sm90::Keep::first_out : sm90::Keep::normal;
  sm90::load_box(to, &a.gate, k, row, barrier, keep);
  if constexpr (S::gated) sm90::load_box(to + S::outputs * 128, &a.up, k, row, barrier, keep);
}

// Run by one thread of each loading warp, which has every S::loaders-th stage: to wait for a stage and ask for
// its boxes takes a thread 150 cycles and 50 for each, twice as long as the products of 64 rows and 64 tokens.
template <class S>
__device__ __forceinline__ void produce(const SkinnyArguments& a, uint32_t stages, uint32_t full,
                                        uint32_t empty, int loader, int tile, int token, int first,
                                        int last) {
  const int early = a.weights_settled ? min(last - first, S::early_stages) : 0;
  const int bytes = (a.outputs * (S::gated ? 2 : 1) + S::tokens) * 128;  // of a stage
  for (int i = loader; i < early; i += S::loaders) {
    sm90::barrier_expect(full + 8 * i, bytes);
    load_weights<S>(a, stages + i * S::stage_bytes, full + 8 * i, tile, first + i);
  }
  sm90::wait_for_previous_kernel();
  if (loader == 0) sm90::let_next_kernel_start();
  int stage = 0;
  uint32_t phase = 1;
  for (int step = first; step < last; ++step) {
    if (stage % S::loaders == loader) {
      const uint32_t to = stages + stage * S::stage_bytes, barrier = full + 8 * stage;
      if (step - first >= early) {
        sm90::barrier_wait(empty + 8 * stage, phase);
        sm90::barrier_expect(barrier, bytes);
        load_weights<S>(a, to, barrier, tile, step);
      }
      sm90::load_box(to + S::weight_bytes, &a.x, step * S::depth, token, barrier, sm90::Keep::last_out);
    }
    if (++stage == S::stages) stage = 0, phase ^= 1;
  }
  // After the last load of the block: a fetch holds up what is asked for behind it.
  if (last > first && (last - first - 1) % S::stages % S::loaders == loader) a.next.fetch();
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

// Where four sums of a thread lie that block `from` sends to block `to`, counted in 16 bytes.
template <class S>
__device__ __forceinline__ int landing_slot(int from, int to, int group, int block) {
  return (((from - (from > to)) * S::own_groups + group) * S::row_blocks + block) * S::sum_threads +
         threadIdx.x;
}

// How many of the groups 0 to `groups` - 1 are rank's.
template <class S>
__device__ __forceinline__ int groups_of(int rank, int groups) {
  return (max(0, groups - rank) + S::split - 1) / S::split;
}

// Sends the others' sums to the threads of the same number there, and waits for what they send to this block.
template <class S>
__device__ __forceinline__ void exchange(uint32_t landing, uint32_t landed, int groups, int rank,
                                         const float (&d)[S::row_blocks][S::tokens / 2]) {
  sm90::cluster_wait();  // every block's barrier is ready
#pragma unroll
  for (int to = 0; to < S::split; ++to) {
    if (to == rank) continue;
    const uint32_t there = sm90::address_in(to, landing), barrier = sm90::address_in(to, landed);
#pragma unroll
    for (int group = 0; group < S::own_groups; ++group) {
      const int j = group * S::split + to;
      if (j >= S::token_groups || j >= groups) break;
#pragma unroll
      for (int block = 0; block < S::row_blocks; ++block)
        sm90::send(there + landing_slot<S>(rank, to, group, block) * 16, barrier, &d[block][4 * j]);
    }
  }
  sm90::barrier_wait_cluster(landed, 0);
}

// The sums of this rank's tokens, added over the cluster in the order of ranks, as partial[token][weight
// row].
template <class S>
__device__ __forceinline__ void write_sums(float* partial, const float4* landing, int warpgroup,
                                           int groups, int rank,
                                           const float (&d)[S::row_blocks][S::tokens / 2]) {
  const int thread = threadIdx.x % 128,
            row = warpgroup * S::row_blocks * 64 + thread / 32 * 16 + thread % 32 / 4,
            token = thread % 4 * 2;
#pragma unroll
  for (int own = 0; own < S::split; ++own) {
    if (own != rank) continue;
#pragma unroll
    for (int group = 0; group < S::own_groups; ++group) {
      const int j = group * S::split + own;
      if (j >= S::token_groups || j >= groups) break;
#pragma unroll
      for (int block = 0; block < S::row_blocks; ++block) {
        float4 sum = make_float4(0.f, 0.f, 0.f, 0.f);
#pragma unroll
        for (int from = 0; from < S::split; ++from) {
          const float* mine = &d[block][4 * j];
          const float4 v = from == own ? make_float4(mine[0], mine[1], mine[2], mine[3])
                                       : landing[landing_slot<S>(from, own, group, block)];
          sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
        }
        float* to = partial + (8 * group + token) * S::partial_pitch + row + 64 * block;
        to[0] = sum.x, to[S::partial_pitch] = sum.y, to[8] = sum.z, to[S::partial_pitch + 8] = sum.w;
      }
    }
  }
}

__device__ __forceinline__ void read_eight(const float* from, float (&v)[8]) {
  const float4 low = reinterpret_cast<const float4*>(from)[0], high = reinterpret_cast<const float4*>(from)[1];
  v[0] = low.x, v[1] = low.y, v[2] = low.z, v[3] = low.w;
  v[4] = high.x, v[5] = high.y, v[6] = high.z, v[7] = high.w;
}

// The multiplying threads share the outputs of its tokens, eight neighbouring columns at a time.
template <class S, Act act>
__device__ __forceinline__ void write_outputs(const SkinnyArguments& a, const float* partial, int tile,
                                              int first_token, int groups, int rank) {
  using T = typename S::T;
  const int chunks = a.outputs / 8;
  const EpilogueArguments& e = a.epilogue;
  for (int i = threadIdx.x; i < groups_of<S>(rank, groups) * 8 * chunks; i += S::sum_threads) {
    const int own = i / chunks, output = i % chunks * 8, column = tile * a.outputs + output;
    const int token = first_token + (own / 8 * S::split + rank) * 8 + own % 8;
    if (column >= a.n || token >= a.m) continue;
    float gate[8], up[8];
    read_eight(partial + own * S::partial_pitch + output, gate);
    if constexpr (S::gated) read_eight(partial + own * S::partial_pitch + output + S::outputs, up);
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
    *reinterpret_cast<uint4*>(static_cast<T*>(a.out) + token * a.out_stride + column) =
        make_uint4(packed[0], packed[1], packed[2], packed[3]);
  }
}

}  // namespace skinny

template <class S>
__global__ __launch_bounds__(S::threads,
                             S::per_sm) void skinny_gemm(const __grid_constant__ SkinnyArguments arguments) {
  extern __shared__ __align__(1024) uint8_t shared[];
  const uint32_t stages = sm90::shared_address(shared), landing = stages + S::stages * S::stage_bytes,
                 full = landing + S::landing_bytes, empty = full + 8 * S::stages,
                 landed = empty + 8 * S::stages;
  const int unit = blockIdx.x / S::split, rank = blockIdx.x % S::split;  // a cluster's blocks are neighbours
  const int tile = unit / arguments.token_tiles, token = unit % arguments.token_tiles * S::tokens;
  const int groups = (min(S::tokens, arguments.m - token) + 7) / 8;  // of eight tokens
  if (threadIdx.x == S::sum_threads)
    sm90::prefetch_map(&arguments.gate), sm90::prefetch_map(&arguments.up), sm90::prefetch_map(&arguments.x);
  if (threadIdx.x == 0) {
    for (int s = 0; s < S::stages; ++s) {
      sm90::barrier_init(full + 8 * s, 1);
      sm90::barrier_init(empty + 8 * s, 4 * S::groups);  // a multiplying warp each
    }
    sm90::barrier_init(landed, 1);
    sm90::barrier_init_fence();
    if constexpr (S::split > 1)
      sm90::barrier_expect(
          landed, (S::split - 1) * skinny::groups_of<S>(rank, groups) * S::row_blocks * S::sum_threads * 16);
  }
  __syncthreads();
  if constexpr (S::split > 1) sm90::cluster_arrive();
  const int first = rank * arguments.k_steps / S::split, last = (rank + 1) * arguments.k_steps / S::split;
  const int group = threadIdx.x / 128;
  if (group == S::groups) {
    if (threadIdx.x % 32 == 0)
      skinny::produce<S>(arguments, stages, full, empty, threadIdx.x % 128 / 32, tile, token, first, last);
    __syncwarp();
    if constexpr (S::split > 1) sm90::cluster_wait();
  } else {
    float d[S::row_blocks][S::tokens / 2];
    skinny::multiply<S>(stages, full, empty, last - first, group, d);
    if constexpr (S::split > 1) skinny::exchange<S>(landing, landed, groups, rank, d);
    sm90::named_barrier(1, S::sum_threads);  // the stages are free in every warpgroup
    float* sums = reinterpret_cast<float*>(shared);
    skinny::write_sums<S>(sums, reinterpret_cast<const float4*>(shared + S::stages * S::stage_bytes), group,
                          groups, rank, d);
    sm90::named_barrier(1, S::sum_threads);
    with_activation(arguments.epilogue.act, [&]<Act act>() {
      skinny::write_outputs<S, act>(arguments, sums, tile, token, groups, rank);
    });
  }
}

}  // namespace epilogue::cuda
