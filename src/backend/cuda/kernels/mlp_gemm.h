// The whole gated MLP as one kernel on Hopper, bf16 and f16:
//   hidden = act(x gate^T + gate_bias) * (x up^T + up_bias),   out = hidden down^T + down_bias
// For batches of some thousand rows and fewer, where two kernels lose much between and around them. The
// hidden tensor is rounded and written as by two kernels; one configuration gives the same bits on every run.
#pragma once

#include "backend/cuda/kernels/gated_gemm.h"

namespace epilogue::cuda {

struct MlpGemmProblem {
  GatedGemmProblem gated;           // its out is the hidden tensor; next and after_gated are not read
  int64_t dim = 0;                  // columns of out
  const void* down = nullptr;       // [dim, gated.n]
  const void* down_bias = nullptr;  // [dim] or null
  void* out = nullptr;              // [gated.m, dim]
  int64_t down_stride = 0, out_stride = 0;
};

GatedGemmProblem down_product_of(const MlpGemmProblem& problem);

struct MlpGemmConfig {
  int16_t id = 0;                 // among the tiles that are compiled
  int16_t rows = 0, columns = 0;  // of the accumulators of a tile
  int16_t parts = 1;              // of blocks that share the K of a tile of down
};

cudaError_t load_mlp_gemm(DType dtype);  // as load_gated_gemm

// Null, or why the kernel does not take the problem.
const char* refuse_mlp_gemm(const MlpGemmProblem& problem);

// The tiles that are compiled, each with those parts that won for some shape of bench/cuda/NOTES.md. Any
// number of parts is right that does not exceed K / 64 of down.
std::span<const MlpGemmConfig> mlp_gemm_configs();
std::string name(const MlpGemmConfig& config);

// Steps of 64 of K of each part but the last, which has what is left.
int steps_of_part(int k_steps, int parts, int tile_width);

// What a launch needs beside its operands: counters, all zero before the first launch and left so by each,
// and sums. Launches that may run at the same time need their own.
struct MlpGemmRoom {
  size_t counter_bytes = 0, sum_bytes = 0;
};
inline constexpr int kMlpChunks = 8;  // of hidden columns, counted for each row of tiles
MlpGemmRoom room_of(const MlpGemmProblem& problem, const MlpGemmConfig& config);

struct MlpGemmLaunch {
  void* counters = nullptr;
  void* sums = nullptr;
  // All blocks start at once or none does. Blocks wait for each other, so of two such kernels that may run at
  // the same time one at least must be launched so; it costs 1 us.
  bool cooperative = true;
};

// As launch_gated_gemm.
cudaError_t launch_mlp_gemm(const MlpGemmProblem& problem, const MlpGemmConfig& config,
                            const MlpGemmLaunch& launch, cudaStream_t stream);

}  // namespace epilogue::cuda
