// Finds the quickest of cuBLASLt's algorithms for a problem while the problem is being run.
#pragma once

#include <optional>
#include <vector>

#include "backend/cuda/cublaslt.h"
#include "backend/cuda/gemm_choices.h"

namespace epilogue::cuda {

// The state of one problem. Each call of try_some() times algorithms for at most a few milliseconds and goes
// on where the last one stopped, so that no call waits long: at 8192x14336x4096 that takes some calls, at
// most sizes one. Algorithms are timed in turn, several rounds, and judged by the median: the clocks rise at
// first and fall when the card grows hot, so neighbours in time are compared, and neither luck nor an
// interruption counts. Problems that fit the cache are timed with the cache emptied, as they are met in a
// model.
class GemmTuning {
 public:
  explicit GemmTuning(std::vector<cublasLtMatmulAlgo_t> candidates);

  bool over() const { return over_; }
  const cublasLtMatmulAlgo_t& best() const { return candidates_[best_].algo; }
  void try_some(CudaDevice& device, const GemmPlan& plan, const GemmProblem& problem);
  std::string report() const;  // a line for EPILOGUE_VERBOSE=tuning

 private:
  struct Candidate {
    cublasLtMatmulAlgo_t algo;
    std::vector<double> us = {};  // of each round after the first
    bool fails = false;
    double median_us() const;  // infinite while it is not known
  };
  // Nothing when the library refuses the algorithm.
  std::optional<double> time_once(CudaDevice& device, const GemmPlan& plan, const GemmProblem& problem,
                                  const Candidate& candidate);
  void choose();

  std::vector<Candidate> candidates_;
  size_t next_ = 0, round_ = 0, best_ = 0;
  bool over_ = false;
};

}  // namespace epilogue::cuda
