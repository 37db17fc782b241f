// The whole gated MLP in one persistent kernel: y = (act(x gate^T) * (x up^T)) down^T.
//
// Items of work stand in one order, the tiles of the gated product before those of down, and block b takes
// items b, b + blocks, and so on. No launch, no first load and no drained pipeline lie between the two
// products, and a multiprocessor without a tile of the first left begins the second (2048 x 1024 x 4096: 0.89
// of cuBLAS's time, two kernels 1.03). The hidden tensor goes through the second-level cache; its tiles are
// counted when they are written, and who reads them waits for the count. Tiles of down are few, so `parts`
// items share the K of one: their sums go through global memory, and the last of them adds them to its
// own in their order, so that every run gives the same bits. All blocks must come to stand on the device at
// once: a cooperative launch, or one beside which no other such kernel can be running. (Blocks that claim the
// next item need not, but lose what neighbours merge of their loads: 2048 x 2048 x 8192 350 us instead of
// 310.)
//
// Tiles, stages and epilogues are tile_gemm's, in its ping-pong schedule. Of the first warpgroup one thread
// loads, two store, and one watches counts ahead of the loading one: a thread that has seen a count and makes
// it hold for the copy engine waits until all copies that it asked for have come (5000 cycles when the
// loading thread did it).
#pragma once

#include "backend/cuda/kernels/mlp_gemm.h"
#include "backend/cuda/kernels/tile_gemm.cuh"

namespace epilogue::cuda {

struct MlpArguments {
  TileArguments gated, down;  // down's x is the hidden tensor that gated's out writes
  int parts;                  // items that share the K of a tile of down
  int part_steps;             // of each of them but the last, which has what is left
  int chunk_tiles;            // columns of gated tiles in a chunk
  int* counters;              // all zero between launches: see mlp::Counters
  float4* sums;               // of all parts but the last
};

// The tiles of down in the shared memory of the gated ones.
template <class G>
struct DownShape : TileShape<typename G::T, false, G::rows, G::width, true> {
  static constexpr int box_columns = G::box_columns, box_bytes = G::box_bytes, buffers = G::buffers;
  static constexpr int out_bytes = G::out_bytes, stages = G::stages, shared_bytes = G::shared_bytes;
  static_assert(G::ping_pong && DownShape::stage_bytes == G::stage_bytes &&
                DownShape::outputs % box_columns == 0);
  // Sums of a tile come back through the ring in slices no larger than a stage: so many quads of each thread.
  static constexpr int quads = G::row_blocks * G::width / 8;
  static constexpr int slices = (quads * 128 * 16 + G::stage_bytes - 1) / G::stage_bytes;
  static constexpr int slice_quads = (quads + slices - 1) / slices;
  static constexpr int tile_quads = quads * 128;
};

namespace mlp {

using tile::Block;
using tile::Place;
using tile::place_of;
using tile::Ring;

__device__ __forceinline__ int tiles(const TileArguments& a) { return a.tile_rows * a.tile_columns; }
__device__ __forceinline__ int items(const MlpArguments& a) {
  return tiles(a.gated) + tiles(a.down) * a.parts;
}

// An item of down: parts of early K come first, since early columns of the hidden tensor are written first.
struct Part {
  int tile, number, first_step, steps;
  bool last;
};
__device__ __forceinline__ Part part_of(const MlpArguments& a, int item) {
  const int index = item - tiles(a.gated), number = index / tiles(a.down), first = number * a.part_steps;
  const bool last = number + 1 == a.parts;
  return {index - number * tiles(a.down), number, first, last ? a.down.k_steps - first : a.part_steps, last};
}

// Which chunks of the hidden tensor a part reads, and before which step of K it needs the next.
template <class G>
struct Chunks {
  int next, last;
  __device__ __forceinline__ Chunks(const MlpArguments& a, const Part& part)
      : next(chunk_of(a, part.first_step * G::depth)),
        last(chunk_of(a, min((part.first_step + part.steps) * G::depth, a.gated.n) - 1)) {}
  static __device__ __forceinline__ int chunk_of(const MlpArguments& a, int column) {
    return column / G::outputs / a.chunk_tiles;
  }
  __device__ __forceinline__ int step_of_next(const MlpArguments& a) const {
    return next * a.chunk_tiles * G::outputs / G::depth;
  }
};

// ---- counts in global memory ----
struct Counters {
  int* first;
  int tile_rows, down_tiles;
  __device__ __forceinline__ explicit Counters(const MlpArguments& a)
      : first(a.counters), tile_rows(a.gated.tile_rows), down_tiles(tiles(a.down)) {}
  __device__ __forceinline__ int* blocks_done() const { return first; }
  __device__ __forceinline__ int* chunk(int tile_row, int i) const {
    return first + 1 + tile_row * kMlpChunks + i;
  }
  __device__ __forceinline__ int* parts(int down_tile) const { return chunk(tile_rows, 0) + down_tile; }
  __device__ __forceinline__ int count() const { return static_cast<int>(parts(down_tiles) - first); }
};

// What this thread wrote before is seen by whoever sees the count.
__device__ __forceinline__ void count_up(int* counter) {
  asm volatile("red.release.gpu.global.add.s32 [%0], 1;" ::"l"(counter) : "memory");
}

// ---- between the threads of a block ----
// Boxes that a group fills with its outputs, for its storing thread: who multiplies goes on, while that one
// waits until outputs are written and counts them. (tile_gemm's groups store by themselves: where a block has
// a tile or two, the last box would wait for another thread to notice it.)
template <class S>
struct HandedBoxes {
  const Block<S>& b;
  const int group;
  Ring<S::buffers> ring = {};

  __device__ __forceinline__ static uint32_t full(const Block<S>& b, int group, int i) {
    return b.end() + 8 * (group * S::buffers + i);
  }
  __device__ __forceinline__ static uint32_t free(const Block<S>& b, int group, int i) {
    return full(b, group, i) + 8 * 2 * S::buffers;
  }
  __device__ __forceinline__ static uint32_t end(const Block<S>& b) { return free(b, 2, 0); }
  __device__ __forceinline__ static void init_barriers(const Block<S>& b) {
    for (int i = 0; i < 2 * S::buffers; ++i)
      sm90::barrier_init(full(b, 0, i), 4), sm90::barrier_init(free(b, 0, i), 1);
  }

  __device__ __forceinline__ uint32_t begin() const {
    sm90::barrier_wait(free(b, group, ring.stage), ring.phase ^ 1);
    return b.box(group, ring.stage);
  }
  __device__ __forceinline__ void end(int, int) {
    sm90::fence_async_proxy();
    __syncwarp();
    tile::release(full(b, group, ring.stage));
    ring.advance();
  }
  // The storing thread's side, of a whole tile of S or of down.
  template <class Tile>
  __device__ __forceinline__ void store(const TileArguments& a, Place at) {
    for (int block = 0; block < Tile::row_blocks; ++block)
      for (int box = 0; box < Tile::outputs / Tile::box_columns; ++box, ring.advance()) {
        sm90::barrier_wait(full(b, group, ring.stage), ring.phase);
        sm90::store_box(&a.out, b.box(group, ring.stage), at.column + box * Tile::box_columns,
                        at.row + block * 64);
        sm90::store_commit();
        sm90::store_wait_read<0>();
        sm90::barrier_arrive(free(b, group, ring.stage));
      }
  }
};

// The loading thread's waits, in its order, as the watching one has seen them to be over.
template <class G>
struct Seen {
  static constexpr int slots = 2;
  const Block<G>& b;
  Ring<slots> ring = {};

  __device__ __forceinline__ static uint32_t full(const Block<G>& b, int i) {
    return HandedBoxes<G>::end(b) + 8 * i;
  }
  __device__ __forceinline__ static uint32_t empty(const Block<G>& b, int i) {
    return full(b, slots) + 8 * i;
  }
  __device__ __forceinline__ static void init_barriers(const Block<G>& b) {
    for (int i = 0; i < 2 * slots; ++i) sm90::barrier_init(full(b, i), 1);
  }

  __device__ __forceinline__ void watch(const int* counter, int count) {
    int now;
    do {
      asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(now) : "l"(counter) : "memory");
    } while (now < count);
    asm volatile("fence.proxy.async.global;" ::: "memory");
    sm90::barrier_wait(empty(b, ring.stage), ring.phase ^ 1);
    sm90::barrier_arrive(full(b, ring.stage));
    ring.advance();
  }
  __device__ __forceinline__ void wait() {
    sm90::barrier_wait(full(b, ring.stage), ring.phase);
    sm90::barrier_arrive(empty(b, ring.stage));
    ring.advance();
  }
};

template <class G, class D>
__device__ __forceinline__ void watch(const MlpArguments& a, const Block<G>& b) {
  const Counters counters(a);
  Seen<G> seen{b};
  sm90::wait_for_previous_kernel();
  for (int item = blockIdx.x; item < items(a); item += gridDim.x) {
    if (item < tiles(a.gated)) continue;
    const Part part = part_of(a, item);
    const int tile_row = place_of<D>(a.down, part.tile).row / G::rows;
    for (Chunks<G> chunk(a, part); chunk.next <= chunk.last; ++chunk.next)
      seen.watch(counters.chunk(tile_row, chunk.next),
                 min(a.chunk_tiles, a.gated.tile_columns - chunk.next * a.chunk_tiles));
    if (part.last && a.parts > 1) seen.watch(counters.parts(part.tile), (a.parts - 1) * 4);  // a warp each
  }
}

// ---- loading ----
template <class G, class D>
class Loader {
 public:
  __device__ __forceinline__ Loader(const MlpArguments& arguments, const Block<G>& block)
      : a(arguments), b(block), seen{block} {}

  __device__ __forceinline__ void run() {
    int step = 0;
    if (static_cast<int>(blockIdx.x) < tiles(a.gated) && a.gated.weights_settled) step = load_early();
    sm90::wait_for_previous_kernel();
    for (int i = 0; i < step; ++i)
      tile::load_x(a.gated, place_of<G>(a.gated, blockIdx.x), i * G::depth, b.stage(i), b.full(i));
    ring.skip(step);
    for (int item = blockIdx.x; item < items(a); item += gridDim.x, step = 0)
      if (item < tiles(a.gated))
        load_gated(place_of<G>(a.gated, item), step);
      else
        load_down(part_of(a, item));
    sm90::let_next_kernel_start();
  }

 private:
  __device__ __forceinline__ int load_early() {
    const Place at = place_of<G>(a.gated, blockIdx.x);
    const int steps = min(G::stages, a.gated.k_steps);
    for (int i = 0; i < steps; ++i) {
      sm90::barrier_expect(b.full(i), G::stage_bytes);
      tile::load_weights<G>(a.gated, at, i * G::depth, b.stage(i), b.full(i));
    }
    return steps;
  }
  __device__ __forceinline__ uint32_t next_stage(uint32_t bytes) {
    const uint32_t full = b.full(ring.stage);
    sm90::barrier_wait(b.empty(ring.stage), ring.phase ^ 1);
    sm90::barrier_expect(full, bytes);
    return full;
  }

  __device__ __forceinline__ void load_gated(Place at, int step) {
    for (; step < a.gated.k_steps; ++step, ring.advance()) {
      const uint32_t full = next_stage(G::stage_bytes);
      tile::load_x(a.gated, at, step * G::depth, b.stage(ring.stage), full);
      tile::load_weights<G>(a.gated, at, step * G::depth, b.stage(ring.stage), full);
    }
  }
  __device__ __forceinline__ void load_down(const Part& part) {
    const Place at = place_of<D>(a.down, part.tile);
    const int end = part.first_step + part.steps;
    Chunks<G> chunk(a, part);
    int next_wait = part.first_step;
    for (int step = part.first_step; step < end; ++step, ring.advance()) {
      const uint32_t full = next_stage(G::stage_bytes);
      tile::load_weights<D>(a.down, at, step * D::depth, b.stage(ring.stage), full);
      while (step >= next_wait) {
        seen.wait();
        ++chunk.next;
        next_wait = chunk.next <= chunk.last ? chunk.step_of_next(a) : end;
      }
      tile::load_x(a.down, at, step * D::depth, b.stage(ring.stage), full);
    }
    if (part.last && a.parts > 1) load_sums(part.tile);
  }
  __device__ __forceinline__ void load_sums(int tile) {
    seen.wait();
    const float4* from = a.sums + int64_t{tile} * (a.parts - 1) * D::tile_quads;
    for (int p = 0; p + 1 < a.parts; ++p, from += D::tile_quads)
      for (int quad = 0; quad < D::quads; quad += D::slice_quads, ring.advance()) {
        const uint32_t bytes = min(D::slice_quads, D::quads - quad) * 128 * 16;
        const uint32_t full = next_stage(bytes);
        sm90::load_bytes(b.stage(ring.stage), from + quad * 128, bytes, full);
      }
  }

  const MlpArguments& a;
  const Block<G>& b;
  Seen<G> seen;
  Ring<G::stages> ring;
};

// ---- multiplying ----
// Sums as their threads hold them: quad i of thread t at i * 128 + t.
template <class D, int registers>
__device__ __forceinline__ float* quad_of(float (&d)[D::row_blocks][registers], int i) {
  return &d[i / (registers / 4)][i % (registers / 4) * 4];
}
template <class D, int registers>
__device__ __forceinline__ void leave_sums(const MlpArguments& a, const Part& part,
                                           float (&d)[D::row_blocks][registers]) {
  float4* to =
      a.sums + (int64_t{part.tile} * (a.parts - 1) + part.number) * D::tile_quads + threadIdx.x % 128;
#pragma unroll
  for (int i = 0; i < D::quads; ++i) {
    const float* v = quad_of<D>(d, i);
    __stcg(to + i * 128, make_float4(v[0], v[1], v[2], v[3]));
  }
  __syncwarp();
  if (threadIdx.x % 32 == 0) count_up(Counters(a).parts(part.tile));
}
template <class D, class G, int registers>
__device__ __forceinline__ void add_sums(const MlpArguments& a, const Block<G>& b, Ring<G::stages>& ring,
                                         float (&d)[D::row_blocks][registers]) {
  for (int p = 0; p + 1 < a.parts; ++p)
#pragma unroll
    for (int first = 0; first < D::quads; first += D::slice_quads) {
      sm90::barrier_wait(b.full(ring.stage), ring.phase);
      const uint32_t from = b.stage(ring.stage) + threadIdx.x % 128 * 16;
#pragma unroll
      for (int i = first; i < first + D::slice_quads && i < D::quads; ++i) {
        float* v = quad_of<D>(d, i);
        const float4 sum = sm90::load_quad(from + (i - first) * 128 * 16);
        v[0] += sum.x, v[1] += sum.y, v[2] += sum.z, v[3] += sum.w;
      }
      sm90::fence_async_proxy();  // before the copy engine writes here again
      __syncwarp();
      tile::release(b.empty(ring.stage));
      ring.advance();
    }
}

template <class G, class D>
__device__ __forceinline__ void consume(const MlpArguments& a, const Block<G>& b, int group) {
  Ring<G::stages> ring;
  HandedBoxes<G> boxes{b, group};
  int turn = 0;
  const int all = items(a), stride = gridDim.x;
  for (int item = blockIdx.x; item < all; item += stride, turn ^= 1) {
    const bool gated = item < tiles(a.gated), passes = item + stride < all;
    Part part = {};
    if (!gated) part = part_of(a, item);
    const int steps = gated ? a.gated.k_steps : part.steps;
    const bool sums_follow = part.last && a.parts > 1;
    if (turn != group) {
      ring.skip(steps + (sums_follow ? (a.parts - 1) * D::slices : 0));
      continue;
    }
    if (item >= stride) tile::wait_for_turn(group);
    float d[G::row_blocks][G::width / 2];
    tile::multiply<G>(steps, b, 0, ring, d, [&] {
      if (passes && !sums_follow) tile::pass_turn(group);  // else when all of its stages have come
    });
    if (sums_follow) {
      add_sums<D>(a, b, ring, d);
      if (passes) tile::pass_turn(group);
    }
    if (gated) {
      tile::finish_tile<G>(a.gated, place_of<G>(a.gated, item).column, boxes, d);
    } else if (!part.last) {
      leave_sums<D>(a, part, d);
    } else {
      tile::add_bias<D, 0>(a.down.epilogue.gate_bias, a.down, place_of<D>(a.down, part.tile).column, d);
      tile::fill_boxes<D>(boxes, d, [](float2 sum, float2) { return sum; });
    }
  }
}

// ---- storing ----
template <class G, class D>
__device__ __forceinline__ void store(const MlpArguments& a, const Block<G>& b, int group) {
  HandedBoxes<G> boxes{b, group};
  int turn = 0;
  for (int item = blockIdx.x; item < items(a); item += gridDim.x, turn ^= 1) {
    if (turn != group) continue;
    if (item < tiles(a.gated)) {
      const Place at = place_of<G>(a.gated, item);
      boxes.template store<G>(a.gated, at);
      sm90::store_wait<0>();
      count_up(Counters(a).chunk(at.row / G::rows, at.column / G::outputs / a.chunk_tiles));
    } else if (const Part part = part_of(a, item); part.last) {
      boxes.template store<D>(a.down, place_of<D>(a.down, part.tile));
    }
  }
}

// The block that is done last leaves all counters as it found them, for the next launch.
__device__ __forceinline__ void reset_counters(const MlpArguments& a) {
  const Counters counters(a);
  int others = 0;
  __syncthreads();
  if (threadIdx.x == 0)
    asm volatile("atom.acq_rel.gpu.global.add.s32 %0, [%1], 1;"
                 : "=r"(others)
                 : "l"(counters.blocks_done())
                 : "memory");
  if (!__syncthreads_or(threadIdx.x == 0 && others + 1 == static_cast<int>(gridDim.x))) return;
  for (int i = threadIdx.x; i < counters.count(); i += blockDim.x) counters.first[i] = 0;
}

}  // namespace mlp

template <class G>
__global__ __launch_bounds__(G::threads, 1) void mlp_gemm(const __grid_constant__ MlpArguments arguments) {
  using D = DownShape<G>;
  extern __shared__ __align__(1024) uint8_t shared[];
  const tile::Block<G> block{sm90::shared_address(shared)};
  if (threadIdx.x == 0) {
    tile::prefetch_maps(arguments.gated), tile::prefetch_maps(arguments.down);
    mlp::HandedBoxes<G>::init_barriers(block);
    mlp::Seen<G>::init_barriers(block);
    block.init_barriers();
  }
  __syncthreads();
  const int group = threadIdx.x / 128;
  if (group == 0) {
    sm90::give_registers<G::producer_registers>();
    if (threadIdx.x == 0) mlp::Loader<G, D>(arguments, block).run();
    if (threadIdx.x == 32) mlp::store<G, D>(arguments, block, 0);
    if (threadIdx.x == 64) mlp::store<G, D>(arguments, block, 1);
    if (threadIdx.x == 96) mlp::watch<G, D>(arguments, block);
    __syncwarp();
  } else {
    sm90::take_registers<G::consumer_registers>();
    mlp::consume<G, D>(arguments, block, group - 1);
  }
  mlp::reset_counters(arguments);
}

}  // namespace epilogue::cuda
