// The whole MLP as one kernel (kernels/mlp_gemm.h), a way to run it beside two.
#pragma once

#include <vector>

#include "backend/cuda/device.h"
#include "backend/cuda/kernels/mlp_gemm.h"

namespace epilogue::cuda {

// Version 17 of bench/cuda/NOTES.md: with a larger hidden tensor two kernels lose little, and `fused` keeps
// to them, as its two rows in a profile say what each product takes.
inline constexpr size_t kMostHiddenBytesOfOneKernel = size_t{32} << 20;

// Null, or why the one kernel is not worth a try: it does not take the problem, or loses wherever it was
// measured.
const char* refuse_one_kernel(const CudaDevice& device, const MlpGemmProblem& problem);

// The configurations worth timing.
std::vector<MlpGemmConfig> one_kernel_candidates(const MlpGemmProblem& problem);

// On the current stream, in its workspace; overlaps as launch_own does.
cudaError_t launch_one_kernel(CudaDevice& device, MlpGemmProblem problem, const MlpGemmConfig& config);

}  // namespace epilogue::cuda
