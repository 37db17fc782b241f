# The Hopper kernels alone, checked and timed beside cuBLAS: see gated_gemm_lab.cu.
add_executable(gated_gemm_lab ${PROJECT_SOURCE_DIR}/bench/cuda/gated_gemm_lab.cu
  ${PROJECT_SOURCE_DIR}/src/backend/cuda/kernels/gated_gemm.cpp
  ${PROJECT_SOURCE_DIR}/src/backend/cuda/kernels/gated_gemm_choice.cpp
  ${PROJECT_SOURCE_DIR}/src/backend/cuda/kernels/mlp_gemm.cpp
  ${PROJECT_SOURCE_DIR}/src/backend/cuda/kernels/tensor_map.cpp $<TARGET_OBJECTS:epilogue_hopper>)
set_target_properties(gated_gemm_lab PROPERTIES CUDA_ARCHITECTURES 90a-real)
target_include_directories(gated_gemm_lab PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/bench ${PROJECT_SOURCE_DIR}/include)
target_link_libraries(gated_gemm_lab PRIVATE CUDA::cublas CUDA::cublasLt)
