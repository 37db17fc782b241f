#include "backend/cuda/kernels/mlp_launch.cuh"

namespace epilogue::cuda {
template cudaError_t launch_mlp<__nv_bfloat16>(const MlpGemmProblem&, const MlpGemmConfig&,
                                               const MlpGemmLaunch&, cudaStream_t);
template cudaError_t load_mlp<__nv_bfloat16>();
}  // namespace epilogue::cuda
