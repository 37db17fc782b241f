// Argument building and launch of the whole MLP's kernel, for one dtype. A source file instantiates
// launch_mlp and load_mlp.
#pragma once

#include "backend/cuda/kernels/gemm_launch.cuh"
#include "backend/cuda/kernels/mlp_gemm.cuh"

namespace epilogue::cuda {

template <class G>
cudaError_t launch_mlp_shape(const MlpGemmProblem& p, int parts, const MlpGemmLaunch& launch,
                             cudaStream_t stream) {
  static std::atomic<uint64_t> ready{0};
  MlpArguments a;
  if (!tile_arguments<G>(p.gated, &a.gated) || !tile_arguments<DownShape<G>>(down_product_of(p), &a.down))
    return cudaErrorInvalidValue;
  if (parts < 1 || parts > a.down.k_steps) return cudaErrorInvalidValue;
  a.parts = parts, a.part_steps = steps_of_part(a.down.k_steps, parts, G::width);
  a.chunk_tiles = (a.gated.tile_columns + kMlpChunks - 1) / kMlpChunks;
  a.counters = static_cast<int*>(launch.counters), a.sums = static_cast<float4*>(launch.sums);
  const int64_t items = int64_t{a.gated.tile_rows} * a.gated.tile_columns +
                        int64_t{a.down.tile_rows} * a.down.tile_columns * a.parts;
  return launch_kernel(mlp_gemm<G>, a,
                       {persistent_blocks(items), G::threads, G::shared_bytes, 1,
                        p.gated.overlap != Overlap::none, launch.cooperative},
                       ready, stream);
}

template <class T>
cudaError_t load_mlp() {
  cudaFuncAttributes known;
  return cudaFuncGetAttributes(&known, mlp_gemm<TileShape<T, true, 128, 128, true>>);
}

template <class T>
cudaError_t launch_mlp(const MlpGemmProblem& p, const MlpGemmConfig& config, const MlpGemmLaunch& launch,
                       cudaStream_t stream) {
  int id = 0;
#define EP_LAUNCH(...)   \
  if (config.id == id++) \
    return launch_mlp_shape<TileShape<T, true, __VA_ARGS__, true>>(p, config.parts, launch, stream);
  EP_MLP_TILES(EP_LAUNCH)
#undef EP_LAUNCH
  return cudaErrorInvalidValue;
}

}  // namespace epilogue::cuda
