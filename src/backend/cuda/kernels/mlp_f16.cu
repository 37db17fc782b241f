#include "backend/cuda/kernels/mlp_launch.cuh"

namespace epilogue::cuda {
template cudaError_t launch_mlp<__half>(const MlpGemmProblem&, const MlpGemmConfig&, const MlpGemmLaunch&,
                                        cudaStream_t);
template cudaError_t load_mlp<__half>();
}  // namespace epilogue::cuda
