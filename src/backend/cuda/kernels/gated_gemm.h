// The MLP's products on Hopper (compute capability 9.0), bf16 and f16, with everything around them in the
// same kernel:
//   out = act(x gate^T + gate_bias) * (x up^T + up_bias)      or, without `up`,      out = act(x gate^T +
//   gate_bias)
// Sums and epilogue are f32; each output is rounded once. Weights are used as they come, [n, k] row-major,
// apart. Every configuration computes the same function, and one configuration gives the same bits on every
// run.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <cuda_runtime_api.h>

#include <epilogue/ops.h>

namespace epilogue::cuda {

// What of a kernel may run before the one before it on the stream has ended (programmatic dependent launch).
// x is never read and the output never written before that. Worth 1 us where kernels are short. Not for
// weights of 64 MB and more through the skinny kernel in several rounds of blocks: these then crowd on the
// multiprocessors that were free first (M = 16, 4096 x 14336: 58 us alone, 62 with it), unless they take all
// of its shared memory.
enum class Overlap : uint8_t {
  none,
  launch,   // blocks start and wait: right after any kernel
  weights,  // blocks load weights meanwhile: right only if no unfinished kernel writes them
};

// Strides count elements between rows; within a row elements are neighbours.
struct GatedGemmProblem {
  DType dtype = DType::bf16;
  Act act = Act::none;
  bool exact =
      false;  // round gate and up, biases added, to the dtype before the activation, as unfused frameworks do
  int64_t m = 0, n = 0, k = 0;
  const void* x = nullptr;          // [m, k]
  const void* gate = nullptr;       // [n, k]
  const void* up = nullptr;         // [n, k]; null: no gate, a plain product
  const void* gate_bias = nullptr;  // [n], of the dtype; null: none
  const void* up_bias = nullptr;
  void* out = nullptr;  // [m, n]
  int64_t x_stride = 0, gate_stride = 0, up_stride = 0, out_stride = 0;
  Overlap overlap = Overlap::none;
  const void* next = nullptr;  // what the kernel after this one reads; only skinny uses it (next_weight.cuh)
  int64_t next_bytes = 0;
  bool after_gated = false;  // it follows a gated product of ours at once
};

enum class GemmKernel : uint8_t { tile, skinny, row_dot, swap, row_mma };  // the five kernel files

struct GemmConfig {
  GemmKernel kernel = GemmKernel::tile;
  int16_t id = 0;  // among the configurations of its kernel
  // Of x per block; but for tile, a batch has 1 of these, from 64 rows on up to 8.
  int16_t rows = 0;
  int16_t columns = 0;     // columns of the accumulators per block: gate and up together when gated
  int16_t split = 1;       // blocks (skinny) or warps (row_dot, row_mma) that share the K of an output
  int16_t per_sm = 1;      // skinny: blocks resident on a multiprocessor
  bool ping_pong = false;  // tile, swap
};

// Loads the machine code of the kernels for a dtype, with or without a gate, onto the current device: about
// 20 ms that a launch would otherwise wait for.
cudaError_t load_gated_gemm(DType dtype, bool gated);

// Null, or why these kernels do not take the problem: one sentence of static storage.
const char* refuse_gated_gemm(const GatedGemmProblem& problem);

// Every configuration, for a caller that times candidates. Not all take every m: see takes().
std::span<const GemmConfig> gated_gemm_configs();
bool takes(const GemmConfig& config, const GatedGemmProblem& problem);
std::string name(const GemmConfig& config);

// How many of n columns each block of skinny takes, at most `most` and in eights, for as many blocks as make
// full rounds of `at_once`: none is then done while another has half of its work before it.
int even_share(int64_t n, int most, int64_t at_once);

// Whether a configuration that takes the problem may be the fastest one, so that it is worth timing.
bool may_be_best(const GemmConfig& config, const GatedGemmProblem& problem);
// The configuration that a model of waves and bytes expects to be fastest.
GemmConfig choose_gated_gemm(const GatedGemmProblem& problem, int multiprocessors);

// Enqueues one kernel. Needs no workspace. The problem must not be refused, and the configuration must take
// it. Callable from any thread; the current device is the stream's.
cudaError_t launch_gated_gemm(const GatedGemmProblem& problem, const GemmConfig& config, cudaStream_t stream);

}  // namespace epilogue::cuda
