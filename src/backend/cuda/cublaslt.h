// cuBLASLt's descriptors for one problem, made once on each thread.
#pragma once

#include <cublasLt.h>

#include "backend/cuda/device.h"
#include "backend/cuda/gemm_problem.h"

namespace epilogue::cuda {

// Descriptors are written at every call (the bias's address), so a plan is one thread's.
class GemmPlan {
 public:
  explicit GemmPlan(const GemmKey& key);
  ~GemmPlan();
  GemmPlan(const GemmPlan&) = delete;
  GemmPlan& operator=(const GemmPlan&) = delete;

  // The algorithms cuBLASLt thinks best, its favourite first; throws Error when it has none.
  std::vector<cublasLtMatmulAlgo_t> candidates(CudaDevice& device, int most) const;
  cublasStatus_t run(CudaDevice& device, const GemmProblem& problem, const cublasLtMatmulAlgo_t& algo) const;

 private:
  const GemmKey key_;
  cublasLtMatmulDesc_t product_ = nullptr;
  cublasLtMatrixLayout_t first_ = nullptr, second_ = nullptr, added_ = nullptr, result_ = nullptr;
};

}  // namespace epilogue::cuda
