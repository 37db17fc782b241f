#include "backend/cuda/kernels/gemm_launch.cuh"

namespace epilogue::cuda {
template cudaError_t launch_gemm<__half, true>(const GatedGemmProblem&, const GemmConfig&, cudaStream_t);
template cudaError_t load_gemm<__half, true>();
}  // namespace epilogue::cuda
