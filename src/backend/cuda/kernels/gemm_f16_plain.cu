#include "backend/cuda/kernels/gemm_launch.cuh"

namespace epilogue::cuda {
template cudaError_t launch_gemm<__half, false>(const GatedGemmProblem&, const GemmConfig&, cudaStream_t);
template cudaError_t load_gemm<__half, false>();
}  // namespace epilogue::cuda
