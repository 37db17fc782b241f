// Finds the quickest of several ways to run a problem while the problem is being run.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "backend/cuda/device.h"

namespace epilogue::cuda {

// The state of one problem. Each call of try_some() times ways for at most a few milliseconds and goes on
// where the last one stopped, so that no call waits long: at 8192x14336x4096 that takes some calls, at most
// sizes one. Ways are timed in turn, several rounds, and judged by the median: the clocks rise at first and
// fall when the card grows hot, so neighbours in time are compared, and neither luck nor an interruption
// counts. Problems that fit the cache are timed with the cache emptied, as they are met in a model.
class Tuning {
 public:
  explicit Tuning(size_t ways);  // the first is taken until another has proved clearly quicker

  bool over() const { return over_; }
  size_t best() const { return best_; }
  // run(way) launches it once on the current stream, and is false when it cannot. `bytes` is what a run
  // touches.
  void try_some(CudaDevice& device, int64_t bytes, const std::function<bool(size_t)>& run);
  std::string report() const;  // a line for EPILOGUE_VERBOSE=tuning

 private:
  struct Way {
    std::vector<double> us;  // of each round after the first
    bool fails = false;
    double median_us() const;  // infinite while it is not known
  };
  void choose();

  std::vector<Way> ways_;
  size_t next_ = 0, round_ = 0, best_ = 0;
  bool over_ = false;
};

}  // namespace epilogue::cuda
