#include "backend/cuda/kernels/gated_gemm.h"

#include <algorithm>
#include <array>
#include <atomic>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "backend/cuda/kernels/gemm_configs.h"

namespace epilogue::cuda {

template <class T, bool gated>
cudaError_t launch_gemm(const GatedGemmProblem& problem, const GemmConfig& config, cudaStream_t stream);
extern template cudaError_t launch_gemm<__nv_bfloat16, true>(const GatedGemmProblem&, const GemmConfig&,
                                                             cudaStream_t);
extern template cudaError_t launch_gemm<__nv_bfloat16, false>(const GatedGemmProblem&, const GemmConfig&,
                                                              cudaStream_t);
extern template cudaError_t launch_gemm<__half, true>(const GatedGemmProblem&, const GemmConfig&,
                                                      cudaStream_t);
extern template cudaError_t launch_gemm<__half, false>(const GatedGemmProblem&, const GemmConfig&,
                                                       cudaStream_t);

template <class T, bool gated>
cudaError_t load_gemm();
extern template cudaError_t load_gemm<__nv_bfloat16, true>();
extern template cudaError_t load_gemm<__nv_bfloat16, false>();
extern template cudaError_t load_gemm<__half, true>();
extern template cudaError_t load_gemm<__half, false>();

namespace {

constexpr GemmConfig tile_config(int rows, int width, bool ping_pong) {
  GemmConfig c;
  c.kernel = GemmKernel::tile, c.rows = static_cast<int16_t>(rows), c.columns = static_cast<int16_t>(width);
  c.ping_pong = ping_pong;
  return c;
}
constexpr GemmConfig skinny_config(int rows, int tokens, int split, int per_sm) {
  GemmConfig c;
  c.kernel = GemmKernel::skinny, c.rows = static_cast<int16_t>(tokens);
  c.columns = static_cast<int16_t>(rows), c.split = static_cast<int16_t>(split);
  c.per_sm = static_cast<int16_t>(per_sm);
  return c;
}
constexpr GemmConfig row_dot_config(int warps) {
  GemmConfig c;
  c.kernel = GemmKernel::row_dot, c.rows = 1, c.columns = static_cast<int16_t>(8 / warps);
  c.split = static_cast<int16_t>(warps);
  return c;
}
constexpr GemmConfig row_mma_config() {
  GemmConfig c;
  c.kernel = GemmKernel::row_mma, c.rows = kRowMmaTokens, c.columns = kRowMmaRows, c.split = kRowMmaWarps;
  return c;
}
constexpr GemmConfig swap_config(int tokens, int rows) {
  GemmConfig c;
  c.kernel = GemmKernel::swap, c.rows = static_cast<int16_t>(tokens), c.columns = static_cast<int16_t>(rows);
  c.ping_pong = rows == 128;
  return c;
}

template <size_t count>
constexpr std::array<GemmConfig, count> numbered(std::array<GemmConfig, count> all) {
  for (size_t i = 0; i < count; ++i)
    all[i].id = static_cast<int16_t>(i > 0 && all[i].kernel == all[i - 1].kernel ? all[i - 1].id + 1 : 0);
  return all;
}

#define EP_ROW(...) tile_config(__VA_ARGS__),
#define EP_SKINNY_ROW(...) skinny_config(__VA_ARGS__),
#define EP_DOT_ROW(...) row_dot_config(__VA_ARGS__),
#define EP_SWAP_ROW(...) swap_config(__VA_ARGS__),
constexpr auto kConfigs = numbered(std::array{EP_TILE_CONFIGS(EP_ROW) EP_SKINNY_CONFIGS(
    EP_SKINNY_ROW) EP_ROW_DOT_CONFIGS(EP_DOT_ROW) EP_SWAP_CONFIGS(EP_SWAP_ROW) row_mma_config()});
#undef EP_ROW
#undef EP_SKINNY_ROW
#undef EP_DOT_ROW
#undef EP_SWAP_ROW

bool aligned(const void* pointer, int64_t stride) {
  return reinterpret_cast<uintptr_t>(pointer) % 16 == 0 && stride % 8 == 0;
}

}  // namespace

int multiprocessors_of_current_device() {
  static std::array<std::atomic<int>, 64> known{};
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return 132;
  auto& entry = known[device % 64];
  int count = entry.load(std::memory_order_relaxed);
  if (count == 0) {
    if (cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device) != cudaSuccess) return 132;
    entry.store(count, std::memory_order_relaxed);
  }
  return count;
}

cudaError_t load_gated_gemm(DType dtype, bool gated) {
  if (dtype == DType::bf16)
    return gated ? load_gemm<__nv_bfloat16, true>() : load_gemm<__nv_bfloat16, false>();
  return gated ? load_gemm<__half, true>() : load_gemm<__half, false>();
}

const char* refuse_gated_gemm(const GatedGemmProblem& p) {
  if (p.dtype != DType::bf16 && p.dtype != DType::f16) return "the Hopper kernels take bf16 and f16";
  if (p.m < 1 || p.n < 1 || p.k < 1) return "the Hopper kernels take no empty matrices";
  if (p.k % 8 != 0) return "the Hopper kernels take a K that is a multiple of 8";
  if (p.n % 8 != 0) return "the Hopper kernels take an output width that is a multiple of 8";
  if (p.m > 1 << 30 || p.n > 1 << 30 || p.k > 1 << 30) return "the Hopper kernels take sizes up to 2^30";
  if (!aligned(p.x, p.x_stride) || !aligned(p.gate, p.gate_stride) || !aligned(p.out, p.out_stride) ||
      (p.up != nullptr && !aligned(p.up, p.up_stride)))
    return "the Hopper kernels take matrices whose rows start at multiples of 16 bytes";
  if (reinterpret_cast<uintptr_t>(p.gate_bias) % 4 != 0 || reinterpret_cast<uintptr_t>(p.up_bias) % 4 != 0)
    return "the Hopper kernels take biases aligned to 4 bytes";
  return nullptr;
}

int even_share(int64_t n, int most, int64_t at_once) {
  at_once = std::max<int64_t>(at_once, 1);
  const int64_t blocks = (n + most - 1) / most, rounds = (blocks + at_once - 1) / at_once;
  const int64_t share = (n + rounds * at_once - 1) / (rounds * at_once);
  return static_cast<int>(std::min<int64_t>(most, (share + 7) / 8 * 8));
}

std::span<const GemmConfig> gated_gemm_configs() { return kConfigs; }

bool takes(const GemmConfig& config, const GatedGemmProblem& problem) {
  if (config.kernel == GemmKernel::tile) return true;
  if (config.kernel == GemmKernel::row_mma && problem.up) return false;
  const bool in_pieces = config.kernel != GemmKernel::row_dot && config.rows >= 64;
  return problem.m <= (in_pieces ? 8 : 1) * config.rows;
}

std::string name(const GemmConfig& c) {
  const auto text = [](int v) { return std::to_string(v); };
  const std::string size = text(c.rows) + "x" + text(c.columns);
  if (c.kernel == GemmKernel::skinny) return "skinny " + size + " k" + text(c.split) + " s" + text(c.per_sm);
  if (c.kernel == GemmKernel::swap) return "swap " + size;
  if (c.kernel == GemmKernel::row_mma) return "mma " + size;
  if (c.kernel == GemmKernel::row_dot) return "dot " + size + " k" + text(c.split);
  return (c.ping_pong ? "pong " : "coop ") + size;
}

cudaError_t launch_gated_gemm(const GatedGemmProblem& p, const GemmConfig& config, cudaStream_t stream) {
  if (p.dtype == DType::bf16)
    return p.up != nullptr ? launch_gemm<__nv_bfloat16, true>(p, config, stream)
                           : launch_gemm<__nv_bfloat16, false>(p, config, stream);
  return p.up != nullptr ? launch_gemm<__half, true>(p, config, stream)
                         : launch_gemm<__half, false>(p, config, stream);
}

}  // namespace epilogue::cuda
