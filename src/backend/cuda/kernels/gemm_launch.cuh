// Launchers of the five kernels for one dtype, with or without a gate. A source file instantiates
// launch_gemm and load_gemm for each.
#pragma once

#include <algorithm>
#include <atomic>

#include "backend/cuda/kernels/gated_gemm.h"
#include "backend/cuda/kernels/gemm_configs.h"
#include "backend/cuda/kernels/row_dot.cuh"
#include "backend/cuda/kernels/row_mma.cuh"
#include "backend/cuda/kernels/skinny_gemm.cuh"
#include "backend/cuda/kernels/swap_gemm.cuh"
#include "backend/cuda/kernels/tensor_map.h"
#include "backend/cuda/kernels/tile_gemm.cuh"

namespace epilogue::cuda {

int multiprocessors_of_current_device();

struct LaunchShape {
  int blocks, threads, shared_bytes, cluster;
  bool dependent;         // blocks may start while the kernel before ends
  bool together = false;  // all blocks stand on the device at once
};

// Once per device: the shared memory a kernel may ask for. Those that ask for much split the first-level
// cache alike, since a multiprocessor drains before it changes the split; row_dot reads x through that cache
// (M = 1, 4096 x 14336: 56 us with its default split, 59 with this one).
inline cudaError_t prepare_kernel(const void* kernel, int shared_bytes,
                                  std::atomic<uint64_t>& ready_devices) {
  int device = 0;
  if (const cudaError_t e = cudaGetDevice(&device); e != cudaSuccess) return e;
  const uint64_t bit = uint64_t{1} << (device % 64);
  if ((ready_devices.load(std::memory_order_acquire) & bit) != 0) return cudaSuccess;
  cudaError_t e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
  if (e != cudaSuccess) return e;
  if (shared_bytes > 0)
    e = cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                             cudaSharedmemCarveoutMaxShared);
  if (e == cudaSuccess) ready_devices.fetch_or(bit, std::memory_order_release);
  return e;
}

// As device.h's LaunchConfig, for blocks in clusters that ask for shared memory.
struct ClusterLaunch {
  explicit ClusterLaunch(const LaunchShape& shape, cudaStream_t stream = nullptr) {
    config.gridDim = dim3(shape.blocks), config.blockDim = dim3(shape.threads);
    config.dynamicSmemBytes = shape.shared_bytes, config.stream = stream, config.attrs = attributes;
    if (shape.cluster > 1) {
      auto& a = attributes[config.numAttrs++];
      a.id = cudaLaunchAttributeClusterDimension;
      a.val.clusterDim.x = shape.cluster, a.val.clusterDim.y = a.val.clusterDim.z = 1;
    }
    if (shape.dependent) {
      auto& a = attributes[config.numAttrs++];
      a.id = cudaLaunchAttributeProgrammaticStreamSerialization;
      a.val.programmaticStreamSerializationAllowed = 1;
    }
    if (shape.together) {
      auto& a = attributes[config.numAttrs++];
      a.id = cudaLaunchAttributeCooperative;
      a.val.cooperative = 1;
    }
  }
  ClusterLaunch(const ClusterLaunch&) = delete;
  ClusterLaunch& operator=(const ClusterLaunch&) = delete;
  cudaLaunchAttribute attributes[3];
  cudaLaunchConfig_t config = {};
};

template <class Arguments>
cudaError_t launch_kernel(void (*kernel)(Arguments), const Arguments& arguments, const LaunchShape& shape,
                          std::atomic<uint64_t>& ready_devices, cudaStream_t stream) {
  const cudaError_t e =
      prepare_kernel(reinterpret_cast<const void*>(kernel), shape.shared_bytes, ready_devices);
  if (e != cudaSuccess) return e;
  const ClusterLaunch launch(shape, stream);
  return cudaLaunchKernelEx(&launch.config, kernel, arguments);
}

// How many clusters of a kernel stand on the device at once; `known` keeps the answer. A card's
// multiprocessors come in groups of unequal size, so that on 132 of them there is room for 66 pairs, but for
// 30 clusters of four only.
template <class Arguments>
int clusters_that_fit(void (*kernel)(Arguments), LaunchShape shape, std::atomic<int>& known) {
  int count = known.load(std::memory_order_relaxed);
  if (count > 0) return count;
  shape.blocks = shape.cluster;
  const ClusterLaunch launch(shape);
  if (shape.cluster == 1 || cudaOccupancyMaxActiveClusters(&count, kernel, &launch.config) != cudaSuccess) {
    if (shape.cluster > 1) (void)cudaGetLastError();
    count = multiprocessors_of_current_device() / shape.cluster;
  }
  known.store(count, std::memory_order_relaxed);
  return count;
}

inline EpilogueArguments epilogue_arguments(const GatedGemmProblem& p) {
  return {p.gate_bias, p.up_bias, p.act, p.exact};
}

inline MatrixBox matrix_box(const GatedGemmProblem& p, const void* data, int64_t rows, int64_t columns,
                            int64_t stride, int box_rows, int box_columns) {
  return {data,
          static_cast<uint64_t>(rows),
          static_cast<uint64_t>(columns),
          static_cast<uint64_t>(stride),
          static_cast<uint32_t>(box_rows),
          static_cast<uint32_t>(box_columns),
          static_cast<uint16_t>(box_columns * 2),
          p.dtype == DType::bf16};
}

inline int persistent_blocks(int64_t tiles) {
  return static_cast<int>(std::min<int64_t>(tiles, multiprocessors_of_current_device()));
}

// Whether the driver takes the matrices.
template <class S>
bool tile_arguments(const GatedGemmProblem& p, TileArguments* a) {
  const void* up = S::gated ? p.up : p.gate;
  const int64_t up_stride = S::gated ? p.up_stride : p.gate_stride;
  const auto ceiling = [](int64_t value, int64_t unit) {
    return static_cast<int>((value + unit - 1) / unit);
  };
  a->epilogue = epilogue_arguments(p);
  a->n = static_cast<int>(p.n), a->k_steps = ceiling(p.k, S::depth);
  a->tile_rows = ceiling(p.m, S::rows), a->tile_columns = ceiling(p.n, S::outputs);
  a->weights_settled = p.overlap == Overlap::weights;
  return tensor_map(matrix_box(p, p.x, p.m, p.k, p.x_stride, S::rows, S::depth), &a->x) &&
         tensor_map(matrix_box(p, p.gate, p.n, p.k, p.gate_stride, S::outputs, S::depth), &a->gate) &&
         tensor_map(matrix_box(p, up, p.n, p.k, up_stride, S::outputs, S::depth), &a->up) &&
         tensor_map(matrix_box(p, p.out, p.m, p.n, p.out_stride, 64, S::box_columns), &a->out);
}

template <class S>
cudaError_t launch_tile(const GatedGemmProblem& p, cudaStream_t stream) {
  static std::atomic<uint64_t> ready{0};
  TileArguments a;
  if (!tile_arguments<S>(p, &a)) return cudaErrorInvalidValue;
  const int blocks = persistent_blocks(int64_t{a.tile_rows} * a.tile_columns);
  return launch_kernel(tile_gemm<S>, a,
                       {blocks, S::threads, S::shared_bytes, 1, p.overlap != Overlap::none}, ready, stream);
}

template <class S>
cudaError_t launch_skinny(const GatedGemmProblem& p, cudaStream_t stream) {
  static std::atomic<uint64_t> ready{0};
  static std::atomic<int> fit{0};
  SkinnyArguments a;
  const void* up = S::gated ? p.up : p.gate;
  const int64_t up_stride = S::gated ? p.up_stride : p.gate_stride;
  a.m = static_cast<int>(p.m), a.n = static_cast<int>(p.n);
  a.token_tiles = (a.m + S::tokens - 1) / S::tokens;
  const int at_once = S::per_sm * multiprocessors_of_current_device() / a.token_tiles;
  a.outputs = S::split > 1 ? S::outputs : even_share(p.n, S::outputs, at_once);
  if (!tensor_map(matrix_box(p, p.x, p.m, p.k, p.x_stride, S::tokens, S::depth), &a.x) ||
      !tensor_map(matrix_box(p, p.gate, p.n, p.k, p.gate_stride, a.outputs, S::depth), &a.gate) ||
      !tensor_map(matrix_box(p, up, p.n, p.k, up_stride, a.outputs, S::depth), &a.up))
    return cudaErrorInvalidValue;
  a.epilogue = epilogue_arguments(p);
  a.out = p.out, a.out_stride = p.out_stride;
  a.k_steps = static_cast<int>((p.k + S::depth - 1) / S::depth);
  a.weights_settled = p.overlap == Overlap::weights;
  // What passes is marked to leave first, so that x stays. Smaller weights are not: where the cache is full
  // of what others left, lines so marked never get a place, and a layer called again and again reads its
  // weights from memory each time (64 x 1024 x 4096, one synchronised call: 18.5 us, 17.0 without).
  constexpr int64_t may_stay = int64_t{32} << 20;
  a.weights_pass = a.token_tiles == 1 && p.n * p.k * (S::gated ? 4 : 2) > may_stay;
  const int64_t all_blocks = (p.n + a.outputs - 1) / a.outputs * S::split * a.token_tiles;
  if (all_blocks > 1 << 30) return cudaErrorInvalidConfiguration;
  const int blocks = static_cast<int>(all_blocks);
  a.next = {p, blocks, S::per_sm * multiprocessors_of_current_device()};
  // Blocks that start early should not stand two to a multiprocessor while others are idle: more than half of
  // the shared memory, asked for and not used, sees to that (M = 64, 4096 x 14336, both kernels: two on one
  // made 104 us of 93). Where that many clusters do not fit at once it costs a second wave instead.
  constexpr int more_than_half = 118 * 1024;
  constexpr int most = S::shared_bytes > more_than_half ? S::shared_bytes : more_than_half;
  const cudaError_t e = prepare_kernel(reinterpret_cast<const void*>(skinny_gemm<S>), most, ready);
  if (e != cudaSuccess) return e;
  const bool spread =
      p.overlap == Overlap::weights &&
      blocks / S::split <= clusters_that_fit(skinny_gemm<S>, {0, S::threads, most, S::split, false}, fit);
  const int shared = spread ? most : S::shared_bytes;
  return launch_kernel(skinny_gemm<S>, a, {blocks, S::threads, shared, S::split, p.overlap != Overlap::none},
                       ready, stream);
}

template <class S>
cudaError_t launch_swap(const GatedGemmProblem& p, cudaStream_t stream) {
  static std::atomic<uint64_t> ready{0};
  SwapArguments a;
  const void* up = S::gated ? p.up : p.gate;
  const int64_t up_stride = S::gated ? p.up_stride : p.gate_stride;
  if (!tensor_map(matrix_box(p, p.x, p.m, p.k, p.x_stride, S::tokens, S::depth), &a.x) ||
      !tensor_map(matrix_box(p, p.gate, p.n, p.k, p.gate_stride, S::half, S::depth), &a.gate) ||
      !tensor_map(matrix_box(p, up, p.n, p.k, up_stride, S::half, S::depth), &a.up) ||
      !tensor_map(matrix_box(p, p.out, p.m, p.n, p.out_stride, S::box_tokens, 64), &a.out))
    return cudaErrorInvalidValue;
  a.epilogue = epilogue_arguments(p);
  a.n = static_cast<int>(p.n), a.k_steps = static_cast<int>((p.k + S::depth - 1) / S::depth);
  a.tiles = static_cast<int>((p.n + S::outputs - 1) / S::outputs);
  a.pieces = static_cast<int>((p.m + S::tokens - 1) / S::tokens);
  a.weights_settled = p.overlap == Overlap::weights;
  const int blocks = persistent_blocks(int64_t{a.tiles} * a.pieces);
  return launch_kernel(swap_gemm<S>, a,
                       {blocks, S::threads, S::shared_bytes, 1, p.overlap != Overlap::none}, ready, stream);
}

// row_dot and row_mma.
template <class S>
cudaError_t launch_rows(const GatedGemmProblem& p, void (*kernel)(RowArguments), cudaStream_t stream) {
  static std::atomic<uint64_t> ready{0};
  RowArguments a = {};
  a.x = p.x, a.gate = p.gate, a.up = p.up, a.out = p.out;
  a.epilogue = epilogue_arguments(p);
  a.x_stride = p.x_stride, a.gate_stride = p.gate_stride, a.up_stride = p.up_stride,
  a.out_stride = p.out_stride;
  a.m = static_cast<int>(p.m), a.n = static_cast<int>(p.n), a.k = static_cast<int>(p.k);
  a.weights_settled = p.overlap == Overlap::weights;
  const int blocks = static_cast<int>((p.n + S::outputs - 1) / S::outputs);
  return launch_kernel(kernel, a, {blocks, S::threads, 0, 1, p.overlap != Overlap::none}, ready, stream);
}

template <class T, bool gated>
cudaError_t load_gemm() {
  cudaFuncAttributes known;
  return cudaFuncGetAttributes(&known, row_dot_gemm<RowDotShape<T, gated, 1>>);
}

template <class T, bool gated>
cudaError_t launch_gemm(const GatedGemmProblem& p, const GemmConfig& config, cudaStream_t stream) {
  int id = 0;
  if (config.kernel == GemmKernel::tile) {
#define EP_LAUNCH(...) \
  if (config.id == id++) return launch_tile<TileShape<T, gated, __VA_ARGS__>>(p, stream);
    EP_TILE_CONFIGS(EP_LAUNCH)
#undef EP_LAUNCH
  } else if (config.kernel == GemmKernel::skinny) {
#define EP_LAUNCH(...) \
  if (config.id == id++) return launch_skinny<SkinnyShape<T, gated, __VA_ARGS__>>(p, stream);
    EP_SKINNY_CONFIGS(EP_LAUNCH)
#undef EP_LAUNCH
  } else if (config.kernel == GemmKernel::swap) {
#define EP_LAUNCH(...) \
  if (config.id == id++) return launch_swap<SwapShape<T, gated, __VA_ARGS__>>(p, stream);
    EP_SWAP_CONFIGS(EP_LAUNCH)
#undef EP_LAUNCH
  } else if (config.kernel == GemmKernel::row_dot) {
#define EP_LAUNCH(WARPS)                                       \
  if (config.id == id++) {                                     \
    using Shape = RowDotShape<T, gated, WARPS>;                \
    return launch_rows<Shape>(p, row_dot_gemm<Shape>, stream); \
  }
    EP_ROW_DOT_CONFIGS(EP_LAUNCH)
#undef EP_LAUNCH
  } else if constexpr (!gated) {
    return launch_rows<RowMmaShape<T>>(p, row_mma_gemm<RowMmaShape<T>>, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace epilogue::cuda
