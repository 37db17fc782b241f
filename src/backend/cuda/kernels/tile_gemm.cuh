// Large products: persistent, warp specialised wgmma GEMM with the gate, activation and biases in its
// epilogue.
//
// A block is three warpgroups. One thread of the first drives the copy engine; the other two multiply. In the
// ping-pong schedule each multiplying warpgroup has a tile of its own, so that one's epilogue runs under the
// other's main loop (the ring of stages is filled tile after tile, which keeps their order). In the
// cooperative one they halve a tile's rows, and the second leaves its last stages until the first has issued
// its own: the first's epilogue then runs under the second's products. The gate's and the up projection's
// tiles lie side by side in shared memory: one wgmma multiplies both, and gate and up of an output meet in
// the same thread. Weights therefore stay as they come. Every block loads all of its operands: what
// neighbours ask for at the same time is merged on its way to the second-level cache, so that pairs of blocks
// that multicast to each other save little, and their barriers cost 1 to 2% at short K (bench/cuda/NOTES.md,
// version 13). Outputs, half as wide as the accumulators, leave through stmatrix and the copy engine, which
// also cuts the tails of all three sizes (it fills with zeros outside a matrix, and does not write there).
#pragma once

#include "backend/cuda/kernels/gemm_epilogue.cuh"
#include "backend/cuda/kernels/sm90.cuh"
#include "backend/cuda/kernels/sm90_wgmma.cuh"

namespace epilogue::cuda {

struct TileArguments {
  CUtensorMap x, gate, up, out;  // without a gate, `gate` and `up` are both the weight
  EpilogueArguments epilogue;
  int n;                        // columns of the output
  int k_steps;                  // stages per tile
  int tile_rows, tile_columns;
  bool weights_settled;         // no kernel that may still run writes the weights
};

// rows x width of accumulators per tile; gated, width is gate and up together.
template <class Element, bool is_gated, int tile_rows, int tile_width, bool is_ping_pong>
struct TileShape {
  using T = Element;
  static constexpr bool gated = is_gated, ping_pong = is_ping_pong;
  static constexpr int rows = tile_rows, width = tile_width;
  static constexpr int outputs = gated ? width / 2 : width;
  static constexpr int row_blocks = (ping_pong ? rows : rows / 2) / 64;  // wgmmas per warpgroup for 16 of K
  static constexpr int depth = 64;                                       // of K per stage: rows of 128 bytes
  static constexpr int x_bytes = rows * 128, stage_bytes = x_bytes + width * 128;
  static constexpr int box_columns = outputs % 64 == 0 && width != 192 ? 64
                                     : outputs % 32 == 0               ? 32
                                     : outputs % 16 == 0               ? 16
                                                                       : outputs;  // 72 and 88: rows of 144 and 176 bytes
  static constexpr int box_bytes = 64 * box_columns * 2;
  static constexpr int buffers = box_columns >= 64 ? 2 : box_columns == 32 ? 3 : 4;
  static constexpr int out_bytes = 2 * buffers * box_bytes;
  static constexpr int shared_limit = 232448, slack = 1024;  // barriers
  static constexpr int most_stages = (shared_limit - slack - out_bytes) / stage_bytes;
  static constexpr int stages = most_stages < 8 ? most_stages : 8;
  static constexpr int shared_bytes = slack + stages * stage_bytes + out_bytes;
  static constexpr int threads = 384;
  static constexpr bool many_sums = row_blocks * width / 2 > 128;  // a thread's
  static constexpr int producer_registers = many_sums ? 24 : 40, consumer_registers = many_sums ? 240 : 232;
  static_assert(stages >= 3);
};

namespace tile {

struct Place {
  int row, column;
};
// Eight rows of tiles are walked together: neighbours in time share rows or columns, so that what 132 blocks
// read at once fits the second-level cache. (2 to 32 rows, or columns: within 1.5% at 2048 rows and more.)
template <class S>
__device__ __forceinline__ Place place_of(const TileArguments& a, int index) {
  constexpr int together = 8;
  const int number = index / (together * a.tile_columns), rest = index - number * together * a.tile_columns;
  const int first = number * together, rows = min(together, a.tile_rows - first);
  return {(first + rest % rows) * S::rows, rest / rows * S::outputs};
}

template <int stages>
struct Ring {
  int stage = 0;
  uint32_t phase = 0;
  __device__ __forceinline__ void advance() {
    if (++stage == stages) stage = 0, phase ^= 1;
  }
  __device__ __forceinline__ void skip(int count) {
    const int sum = stage + count, turns = sum / stages;
    stage = sum - turns * stages, phase ^= turns & 1;
  }
};

// Where things lie in shared memory. Nothing is kept that can be had from the arguments: the accumulators
// leave few registers.
template <class S>
struct Block {
  uint32_t stages;

  __device__ __forceinline__ uint32_t stage(int i) const { return stages + i * S::stage_bytes; }
  __device__ __forceinline__ uint32_t out() const { return stages + S::stages * S::stage_bytes; }
  __device__ __forceinline__ uint32_t full(int i) const { return out() + S::out_bytes + 8 * i; }
  __device__ __forceinline__ uint32_t empty(int i) const { return full(i) + 8 * S::stages; }
  // One of the group's buffers for outputs.
  __device__ __forceinline__ uint32_t box(int group, int i) const {
    return out() + (group * S::buffers + i) * S::box_bytes;
  }
  __device__ __forceinline__ uint32_t end() const { return empty(S::stages); }

  __device__ __forceinline__ void init_barriers() const {
    for (int s = 0; s < S::stages; ++s) {
      sm90::barrier_init(full(s), 1);
      sm90::barrier_init(empty(s), S::ping_pong ? 4 : 8);  // a multiplying warp each
    }
    sm90::barrier_init_fence();
  }
};

__device__ __forceinline__ void prefetch_maps(const TileArguments& a) {
  sm90::prefetch_map(&a.x), sm90::prefetch_map(&a.gate), sm90::prefetch_map(&a.up),
      sm90::prefetch_map(&a.out);
}

// The first of a tile's rows that a group multiplies.
template <class S>
__device__ __forceinline__ int first_row_of(int group) {
  return S::ping_pong ? 0 : group * S::row_blocks * 64;
}

__device__ __forceinline__ void load_x(const TileArguments& a, Place at, int k, uint32_t stage,
                                       uint32_t barrier) {
  sm90::load_box(stage, &a.x, k, at.row, barrier);
}

template <class S>
__device__ __forceinline__ void load_weights(const TileArguments& a, Place at, int k, uint32_t stage,
                                             uint32_t barrier) {
  sm90::load_box(stage + S::x_bytes, &a.gate, k, at.column, barrier);
  if constexpr (S::gated)
    sm90::load_box(stage + S::x_bytes + S::width / 2 * 128, &a.up, k, at.column, barrier);
}

template <class S>
__device__ __forceinline__ void produce(const TileArguments& a, const Block<S>& b) {
  const int early = a.weights_settled ? min(S::stages, a.k_steps) : 0;
  Place at = place_of<S>(a, blockIdx.x);
  for (int i = 0; i < early; ++i) {
    sm90::barrier_expect(b.full(i), S::stage_bytes);
    load_weights<S>(a, at, i * S::depth, b.stage(i), b.full(i));
  }
  sm90::wait_for_previous_kernel();
  for (int i = 0; i < early; ++i) load_x(a, at, i * S::depth, b.stage(i), b.full(i));
  Ring<S::stages> ring;
  ring.skip(early);
  int step = early;
  for (int t = blockIdx.x; t < a.tile_rows * a.tile_columns; t += gridDim.x, step = 0) {
    at = place_of<S>(a, t);
    for (; step < a.k_steps; ++step, ring.advance()) {
      const uint32_t full = b.full(ring.stage);
      sm90::barrier_wait(b.empty(ring.stage), ring.phase ^ 1);
      sm90::barrier_expect(full, S::stage_bytes);
      load_x(a, at, step * S::depth, b.stage(ring.stage), full);
      load_weights<S>(a, at, step * S::depth, b.stage(ring.stage), full);
    }
  }
  sm90::let_next_kernel_start();
}

__device__ __forceinline__ void release(uint32_t barrier) {
  if (threadIdx.x % 32 == 0) sm90::barrier_arrive(barrier);
}

// In the ping-pong schedule a warpgroup starts its tile when the other has taken all stages of the tile
// before: a stage's barrier tells only the parity of its turn, so nobody may wait for a turn that is more
// than one away. In the cooperative one the second starts the last stages of a tile when the first has them
// behind it.
__device__ __forceinline__ void wait_for_turn(int group) { sm90::named_barrier(3 + group, 256); }
__device__ __forceinline__ void pass_turn(int group) {
  asm volatile("bar.arrive %0, %1;" ::"r"(3 + (group ^ 1)), "r"(256) : "memory");
}

// A stage is released one step late: its wgmmas run while the next stage's are issued. `unreleased` is the
// barrier of the last one.
template <class S, int registers>
__device__ __forceinline__ void issue_steps(int first, int end, const Block<S>& b, int first_row,
                                            Ring<S::stages>& ring, float (&d)[S::row_blocks][registers],
                                            uint32_t& unreleased) {
  using Mma = sm90::Wgmma<typename S::T, S::width>;
  for (int step = first; step < end; ++step, ring.advance()) {
    const uint32_t stage = b.stage(ring.stage);
    const uint64_t x = sm90::tile_descriptor(stage + first_row * 128),
                   w = sm90::tile_descriptor(stage + S::x_bytes);
    sm90::barrier_wait(b.full(ring.stage), ring.phase);
    sm90::wgmma_begin();
#pragma unroll
    for (int k = 0; k < S::depth / 16; ++k) {
#pragma unroll
      for (int block = 0; block < S::row_blocks; ++block)
        Mma::run(d[block], x + block * 512 + k * 2, w + k * 2, step | k);
    }
    sm90::wgmma_commit();
    if (step > first) {
      sm90::wgmma_wait<1>();
      release(unreleased);
    }
    unreleased = b.empty(ring.stage);
  }
}

// `next` is called when the last products have been issued. The last `behind` steps wait for a turn.
template <class S, int registers, class Next>
__device__ __forceinline__ void multiply(int steps, const Block<S>& b, int first_row, Ring<S::stages>& ring,
                                         float (&d)[S::row_blocks][registers], Next&& next, int behind = 0) {
  uint32_t unreleased = 0;
  int first = 0;
  if (behind > 0) {
    first = steps - behind;
    issue_steps<S>(0, first, b, first_row, ring, d, unreleased);
    sm90::wgmma_wait<0>();
    release(unreleased);
    wait_for_turn(1);
  }
  issue_steps<S>(first, steps, b, first_row, ring, d, unreleased);
  next();
  sm90::wgmma_wait<0>();
#pragma unroll
  for (int block = 0; block < S::row_blocks; ++block) sm90::wgmma_pin(d[block]);
  release(unreleased);
}

// A pass of its own, so that products without a bias pay nothing for it: in the epilogue's loop, predicated,
// biases that were not there took a third of its instructions. `first` is gate's or up's first accumulator.
template <class S, int first, int registers>
__device__ __forceinline__ void add_bias(const void* bias, const TileArguments& a, int first_column,
                                         float (&d)[S::row_blocks][registers]) {
  if (bias == nullptr) return;
#pragma unroll
  for (int j = 0; j < S::outputs / 8; ++j) {
    const int column = first_column + 8 * j + threadIdx.x % 4 * 2;
    const float2 v = bias_pair<typename S::T>(bias, column, column < a.n);
#pragma unroll
    for (int block = 0; block < S::row_blocks; ++block) {
      float* to = &d[block][first + 4 * j];
      to[0] += v.x, to[1] += v.y, to[2] += v.x, to[3] += v.y;
    }
  }
}

// What becomes of the boxes, 64 rows x box_columns, that a group fills with its outputs. The thread that
// stores waits, before the barrier of a box, until the buffer of the next one has been read, so one barrier
// per box is enough.
template <class S>
struct StoredBoxes {
  const TileArguments& a;
  const Block<S>& b;
  const int group;
  Place at = {};
  int buffer = 0;

  __device__ __forceinline__ uint32_t begin() const { return b.box(group, buffer); }
  __device__ __forceinline__ void end(int block, int box) {
    const bool stores = threadIdx.x % 128 == 0;
    sm90::fence_async_proxy();
    if (stores) sm90::store_wait_read<S::buffers - 2>();
    sm90::named_barrier(1 + group, 128);
    if (stores) {
      sm90::store_box(&a.out, begin(), at.column + box * S::box_columns, at.row + block * 64);
      sm90::store_commit();
    }
    if (++buffer == S::buffers) buffer = 0;
  }
};

template <class S, int registers, class Boxes, class Combine>
__device__ __forceinline__ void fill_boxes(Boxes& boxes, float (&d)[S::row_blocks][registers],
                                           Combine&& combine) {
  using T = typename S::T;
  constexpr int pitch = S::box_columns * 2;
  const int thread = threadIdx.x % 128, lane = thread % 32;
  const int row = thread / 32 * 16 + lane % 16;  // the row whose address this lane gives to stmatrix
  // Rows of 144 and 176 bytes fall into different banks by themselves.
  const int swizzle = pitch == 128 ? row % 8 : pitch == 64 ? row / 2 % 4 : pitch == 32 ? row / 4 % 2 : 0;
#pragma unroll
  for (int block = 0; block < S::row_blocks; ++block) {
#pragma unroll
    for (int box = 0; box < S::outputs / S::box_columns; ++box) {
      const uint32_t to = boxes.begin();
#pragma unroll
      for (int pair = 0; pair < (S::box_columns + 8) / 16; ++pair) {
        uint32_t packed[4];
        const bool both = 16 * pair + 8 < S::box_columns;
#pragma unroll
        for (int q = 0; q < (both ? 2 : 1); ++q) {
          const int j = box * (S::box_columns / 8) + 2 * pair + q;
          const float* g = &d[block][4 * j];
          const float* u = S::gated ? &d[block][4 * j + S::outputs / 2] : g;
#pragma unroll
          for (int r = 0; r < 2; ++r) {
            const float2 o =
                combine(make_float2(g[2 * r], g[2 * r + 1]), make_float2(u[2 * r], u[2 * r + 1]));
            packed[2 * q + r] = sm90::pack(o.x, o.y, T{});
          }
        }
        const int chunk = (2 * pair + lane / 16) ^ swizzle;
        if (both)
          sm90::store_matrices(to + row * pitch + chunk * 16, packed[0], packed[1], packed[2], packed[3]);
        else
          sm90::store_matrices(to + row * pitch + 2 * pair * 16, packed[0], packed[1]);
      }
      boxes.end(block, box);
    }
  }
}

// What follows a tile's products.
template <class S, int registers, class Boxes>
__device__ __forceinline__ void finish_tile(const TileArguments& a, int column, Boxes& boxes,
                                            float (&d)[S::row_blocks][registers]) {
  add_bias<S, 0>(a.epilogue.gate_bias, a, column, d);
  if constexpr (S::gated) add_bias<S, S::outputs / 2>(a.epilogue.up_bias, a, column, d);
  if (a.epilogue.exact) {
    fill_boxes<S>(boxes, d, [&](float2 gate, float2 up) {
      gate = rounded<typename S::T>(gate), up = rounded<typename S::T>(up);
      const Act act = a.epilogue.act;
      const float2 o = make_float2(activated(act, gate.x), activated(act, gate.y));
      return S::gated ? make_float2(o.x * up.x, o.y * up.y) : o;
    });
  } else {
    with_activation(a.epilogue.act, [&]<Act act>() {
      fill_boxes<S>(boxes, d, [](float2 gate, float2 up) { return combined<act, S::gated>(gate, up); });
    });
  }
}

template <class S>
__device__ __forceinline__ void consume(const TileArguments& a, const Block<S>& b, int group) {
  Ring<S::stages> ring;
  StoredBoxes<S> boxes{a, b, group};
  int turn = 0;
  // 2 to 4 are within 1% of each other. With fewer steps than stages the first warpgroup could pass a second
  // turn before the second has taken one.
  constexpr int steps_behind = 3;
  static_assert(S::stages > steps_behind);
  const bool in_turn = !S::ping_pong && a.k_steps >= S::stages;
  const int behind = in_turn && group == 1 ? steps_behind : 0;
  const int tiles = a.tile_rows * a.tile_columns, stride = gridDim.x;
  for (int t = blockIdx.x; t < tiles; t += stride, turn ^= 1) {
    if (S::ping_pong && turn != group) {
      ring.skip(a.k_steps);
      continue;
    }
    const bool last = t + stride >= tiles;
    if (S::ping_pong && t >= stride) wait_for_turn(group);
    float d[S::row_blocks][S::width / 2];
    multiply<S>(
        a.k_steps, b, first_row_of<S>(group), ring, d,
        [&] {
          if (S::ping_pong ? !last : in_turn && group == 0) pass_turn(group);
        },
        behind);
    boxes.at = place_of<S>(a, t);
    boxes.at.row += first_row_of<S>(group);
    finish_tile<S>(a, boxes.at.column, boxes, d);
  }
  if (threadIdx.x % 128 == 0) sm90::store_wait_read<0>();
}

}  // namespace tile

template <class S>
__global__ __launch_bounds__(S::threads, 1) void tile_gemm(const __grid_constant__ TileArguments arguments) {
  extern __shared__ __align__(1024) uint8_t shared[];
  const tile::Block<S> block{sm90::shared_address(shared)};
  if (threadIdx.x == 0) {
    tile::prefetch_maps(arguments);
    block.init_barriers();
  }
  __syncthreads();
  const int group = threadIdx.x / 128;
  if (group == 0) {
    sm90::give_registers<S::producer_registers>();
    if (threadIdx.x == 0) tile::produce<S>(arguments, block);
    __syncwarp();
  } else {
    sm90::take_registers<S::consumer_registers>();
    tile::consume<S>(arguments, block, group - 1);
  }
}

}  // namespace epilogue::cuda
