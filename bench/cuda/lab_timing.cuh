// GPU time from CUDA graphs over rotating buffers, and cuBLASLt's plain products as the scale.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "cuda/lab_memory.cuh"

namespace lab {

inline double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v.empty() ? 0 : v[v.size() / 2];
}

// The multiprocessor's cycle counter beside the clock on the wall: two of them tell the clock rate between.
struct ClockSample {
  unsigned long long cycles, nanoseconds, multiprocessor;
};
__global__ void sample_clock(ClockSample* to) {
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(to->nanoseconds));
  to->cycles = clock64();
  unsigned id;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
  to->multiprocessor = id;
}

class Timer {
 public:
  Timer() {
    LAB_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    LAB_CHECK(cudaEventCreate(&begin_));
    LAB_CHECK(cudaEventCreate(&end_));
    LAB_CHECK(cudaMallocHost(&samples_, 2 * sizeof(ClockSample)));
  }
  cudaStream_t stream() const { return stream_; }

  // A graph of launch(0), launch(1), ..., or nothing when one of them gives an error, which is kept in
  // error().
  cudaGraphExec_t capture(int launches, const std::function<cudaError_t(int)>& launch) {
    cudaGraph_t graph;
    cudaGraphExec_t instance;
    LAB_CHECK(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
    error_ = cudaSuccess;
    sample_clock<<<1, 1, 0, stream_>>>(samples_);
    for (int i = 0; i < launches && error_ == cudaSuccess; ++i) error_ = launch(i);
    sample_clock<<<1, 1, 0, stream_>>>(samples_ + 1);
    LAB_CHECK(cudaStreamEndCapture(stream_, &graph));
    if (error_ != cudaSuccess) return (void)cudaGetLastError(), nullptr;
    LAB_CHECK(cudaGraphInstantiate(&instance, graph, 0));
    LAB_CHECK(cudaGraphDestroy(graph));
    return instance;
  }

  // Microseconds of one replay.
  double replay(cudaGraphExec_t instance) {
    LAB_CHECK(cudaEventRecord(begin_, stream_));
    LAB_CHECK(cudaGraphLaunch(instance, stream_));
    LAB_CHECK(cudaEventRecord(end_, stream_));
    LAB_CHECK(cudaEventSynchronize(end_));
    float ms = 0;
    LAB_CHECK(cudaEventElapsedTime(&ms, begin_, end_));
    return ms * 1e3;
  }
  // Of the last replay; 0: not known.
  double gigahertz() const {
    const ClockSample &from = samples_[0], &to = samples_[1];
    return from.multiprocessor == to.multiprocessor
               ? static_cast<double>(to.cycles - from.cycles) /
                     static_cast<double>(to.nanoseconds - from.nanoseconds)
               : 0;
  }

  // Microseconds of launch(i), the median over replays of a graph of `launches` of them. `launch` returns a
  // cudaError_t; a negative result is that error.
  double microseconds(int launches, int replays, const std::function<cudaError_t(int)>& launch) {
    const cudaGraphExec_t instance = capture(launches, launch);
    if (instance == nullptr) return -static_cast<double>(error_);
    std::vector<double> times;
    replay(instance);  // warms up
    for (int r = 0; r < replays; ++r) times.push_back(replay(instance) / launches);
    LAB_CHECK(cudaGraphExecDestroy(instance));
    return median(times);
  }

 private:
  cudaStream_t stream_;
  cudaEvent_t begin_, end_;
  ClockSample* samples_ = nullptr;
  cudaError_t error_ = cudaSuccess;
};

// out[m, n] = x[m, k] w[n, k]^T in bf16. Algorithm 0 is cublasGemmEx, which PyTorch's F.linear calls; the
// others are the first eight that cuBLASLt proposes.
class CublasProduct {
 public:
  CublasProduct(int64_t m, int64_t n, int64_t k)
      : workspace_(allocate(kWorkspace)),
        m_(static_cast<int>(m)),
        n_(static_cast<int>(n)),
        k_(static_cast<int>(k)) {
    LAB_CHECK(cublasCreate(&plain_));
    LAB_CHECK(cublasSetWorkspace(plain_, workspace_.get(), kWorkspace));
    LAB_CHECK(cublasLtCreate(&handle_));
    LAB_CHECK(cublasLtMatmulDescCreate(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    const cublasOperation_t transposed = CUBLAS_OP_T;
    LAB_CHECK(cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                             sizeof transposed));
    LAB_CHECK(cublasLtMatrixLayoutCreate(&w_, CUDA_R_16BF, k, n, k));
    LAB_CHECK(cublasLtMatrixLayoutCreate(&x_, CUDA_R_16BF, k, m, k));
    LAB_CHECK(cublasLtMatrixLayoutCreate(&out_, CUDA_R_16BF, n, m, n));
    cublasLtMatmulPreference_t preference;
    LAB_CHECK(cublasLtMatmulPreferenceCreate(&preference));
    LAB_CHECK(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                   &kWorkspace, sizeof kWorkspace));
    LAB_CHECK(cublasLtMatmulAlgoGetHeuristic(handle_, operation_, w_, x_, out_, out_, preference, 8, found_,
                                             &count_));
    cublasLtMatmulPreferenceDestroy(preference);
  }
  int algorithms() const { return count_ + 1; }
  cudaError_t run(int algorithm, const void* x, const void* w, void* out, cudaStream_t stream) {
    const float one = 1, zero = 0;
    if (algorithm == 0) {
      LAB_CHECK(cublasSetStream(plain_, stream));
      LAB_CHECK(cublasSetWorkspace(plain_, workspace_.get(), kWorkspace));
      const auto status =
          cublasGemmEx(plain_, CUBLAS_OP_T, CUBLAS_OP_N, n_, m_, k_, &one, w, CUDA_R_16BF, k_, x, CUDA_R_16BF,
                       k_, &zero, out, CUDA_R_16BF, n_, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
      return status == CUBLAS_STATUS_SUCCESS ? cudaSuccess : cudaErrorUnknown;
    }
    const auto status = cublasLtMatmul(handle_, operation_, &one, w, w_, x, x_, &zero, out, out_, out, out_,
                                       &found_[algorithm - 1].algo, workspace_.get(), kWorkspace, stream);
    return status == CUBLAS_STATUS_SUCCESS ? cudaSuccess : cudaErrorUnknown;
  }

 private:
  static constexpr size_t kWorkspace = size_t{32} << 20;
  DeviceMemory workspace_;
  int m_, n_, k_;
  cublasHandle_t plain_;
  cublasLtHandle_t handle_;
  cublasLtMatmulDesc_t operation_;
  cublasLtMatrixLayout_t w_, x_, out_;
  cublasLtMatmulHeuristicResult_t found_[8];
  int count_ = 0;
};

}  // namespace lab
