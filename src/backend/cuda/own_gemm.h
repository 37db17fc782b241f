// Our own Hopper kernels (kernels/gated_gemm.h) as ways to run a problem.
#pragma once

#include <optional>
#include <vector>

#include "backend/cuda/device.h"
#include "backend/cuda/gemm_choices.h"
#include "backend/cuda/kernels/gated_gemm.h"

namespace epilogue::cuda {

// Null, or why these kernels do not take the problem on this device.
const char* refuse_own(const CudaDevice& device, const GatedGemmProblem& problem);

// The configurations worth timing, the model's favourite first; none when it is refused.
std::vector<GemmConfig> own_candidates(const CudaDevice& device, const GatedGemmProblem& problem);

// Launches it; where the kernel before it on this stream is one of ours too, the two overlap.
cudaError_t launch_own(CudaDevice& device, GatedGemmProblem problem, const GemmConfig& config);

// How much of the problem's kernel may run before the one before it on this stream has ended.
Overlap overlap_of(const CudaDevice& device, const GatedGemmProblem& problem);
// Of 16-bit elements, with what lies between rows.
size_t bytes_of_rows(int64_t rows, int64_t stride);
size_t bytes_of_x(const GatedGemmProblem& problem);  // from its first element to its last

// A configuration in a file of choices, and back; nothing when there is no such one any more.
GemmChoice choice_of(const GemmConfig& config);
std::optional<GemmConfig> config_of(const GemmChoice& choice);

}  // namespace epilogue::cuda
