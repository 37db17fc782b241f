#include "backend/cuda/kernels/mlp_gemm.h"

#include <algorithm>
#include <array>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "backend/cuda/kernels/gemm_configs.h"

namespace epilogue::cuda {

template <class T>
cudaError_t launch_mlp(const MlpGemmProblem& problem, const MlpGemmConfig& config,
                       const MlpGemmLaunch& launch, cudaStream_t stream);
extern template cudaError_t launch_mlp<__nv_bfloat16>(const MlpGemmProblem&, const MlpGemmConfig&,
                                                      const MlpGemmLaunch&, cudaStream_t);
extern template cudaError_t launch_mlp<__half>(const MlpGemmProblem&, const MlpGemmConfig&,
                                               const MlpGemmLaunch&, cudaStream_t);
template <class T>
cudaError_t load_mlp();
extern template cudaError_t load_mlp<__nv_bfloat16>();
extern template cudaError_t load_mlp<__half>();

namespace {

constexpr int16_t kMostParts = 2;

// Each tile with 1 to kMostParts parts.
template <size_t count>
constexpr std::array<MlpGemmConfig, count * kMostParts> with_parts(
    const std::array<MlpGemmConfig, count>& tiles) {
  std::array<MlpGemmConfig, count * kMostParts> all{};
  for (size_t i = 0; i < all.size(); ++i) {
    all[i] = tiles[i / kMostParts];
    all[i].id = static_cast<int16_t>(i / kMostParts);
    all[i].parts = static_cast<int16_t>(i % kMostParts + 1);
  }
  return all;
}
#define EP_ROW(ROWS, WIDTH) MlpGemmConfig{0, ROWS, WIDTH, 1},
constexpr auto kMlpConfigs = with_parts(std::array{EP_MLP_TILES(EP_ROW)});
#undef EP_ROW

int64_t tiles_of(int64_t size, int64_t tile) { return (size + tile - 1) / tile; }

}  // namespace

GatedGemmProblem down_product_of(const MlpGemmProblem& p) {
  GatedGemmProblem down{.dtype = p.gated.dtype, .m = p.gated.m, .n = p.dim, .k = p.gated.n};
  down.x = p.gated.out, down.x_stride = p.gated.out_stride;
  down.gate = p.down, down.gate_stride = p.down_stride, down.gate_bias = p.down_bias;
  down.out = p.out, down.out_stride = p.out_stride;
  return down;
}

cudaError_t load_mlp_gemm(DType dtype) {
  return dtype == DType::bf16 ? load_mlp<__nv_bfloat16>() : load_mlp<__half>();
}

const char* refuse_mlp_gemm(const MlpGemmProblem& p) {
  if (p.gated.up == nullptr) return "the MLP's kernel takes gated ones";
  if (const char* reason = refuse_gated_gemm(p.gated)) return reason;
  return refuse_gated_gemm(down_product_of(p));
}

std::span<const MlpGemmConfig> mlp_gemm_configs() { return kMlpConfigs; }

std::string name(const MlpGemmConfig& c) {
  return "mlp " + std::to_string(c.rows) + "x" + std::to_string(c.columns) + " k" + std::to_string(c.parts);
}

// The last part waits for the sums of the others, so it multiplies 3 us longer than they do: 8 steps of tiles
// of 128 columns (1024 x 1024 x 4096 in two parts: 0.98 of cuBLAS's time with equal parts, 0.953 so).
int steps_of_part(int k_steps, int parts, int tile_width) {
  const int more = std::min(8 * 128 / tile_width, k_steps / (2 * parts));
  return parts == 1 ? k_steps : (k_steps - more) / parts;
}

// One counter of blocks, then those of chunks and of parts: mlp_gemm.cuh's Counters.
MlpGemmRoom room_of(const MlpGemmProblem& p, const MlpGemmConfig& c) {
  const int64_t rows = tiles_of(p.gated.m, c.rows), tiles = rows * tiles_of(p.dim, c.columns);
  return {static_cast<size_t>(1 + rows * kMlpChunks + tiles) * sizeof(int),
          static_cast<size_t>(tiles * (c.parts - 1)) * c.rows * c.columns * sizeof(float)};
}

cudaError_t launch_mlp_gemm(const MlpGemmProblem& p, const MlpGemmConfig& config, const MlpGemmLaunch& launch,
                            cudaStream_t stream) {
  return p.gated.dtype == DType::bf16 ? launch_mlp<__nv_bfloat16>(p, config, launch, stream)
                                      : launch_mlp<__half>(p, config, launch, stream);
}

}  // namespace epilogue::cuda
