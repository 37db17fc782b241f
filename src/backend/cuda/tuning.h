// Finds the quickest of several ways to run a problem while the problem is being run.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "backend/cuda/device.h"

namespace epilogue::cuda {

// Our kernels start under the kernel before them and load weights there, which timing one alone does not
// show (64 x 4096 x 14336: alone 35.1 us beside cuBLAS's 34.9, the whole MLP 91 beside 98; 256 rows: 50.3 and
// 51.1, 150 and 156).
struct OverlapCredit {
  double share = 0, most_us = 0;  // of a kernel's time
};

inline constexpr double kClearly = 0.96;  // see TuningRules

struct TuningRules {
  OverlapCredit credit;
  // What takes the first way's place takes less than this share of its time, if it is no kernel of ours that
  // the credit is for. Timed alone, ways compare otherwise by some percent than one after the other all day:
  // the card is then at its power limit, and kernels begin under those before them.
  double clearly = kClearly;
  size_t rounds = 6, long_rounds = 4;  // the latter of long runs
  // Rounds in which the best then meets the first way alone, and which decide between the two: of many ways
  // one is always lucky. 0: none.
  size_t last_rounds = 0;
};

struct TimedProblem {
  int64_t bytes = 0;  // what a run touches
  const void* x = nullptr;
  size_t x_bytes = 0;
  std::function<bool(size_t)> run;  // launches a way once on the current stream; false when it cannot
};

// The state of one problem. Each call of try_some() times ways for at most a few milliseconds and goes on
// where the last one stopped, so that no call waits long: at 8192x14336x4096 that takes some calls, at most
// sizes one. Ways are timed in turn, several rounds, and judged by the median: the clocks rise at first and
// fall when the card grows hot, so neighbours in time are compared, and neither luck nor an interruption
// counts. Problems that fit the cache are timed with the cache emptied but for x, as they are met in a model:
// the kernel before has just written it.
class Tuning {
 public:
  // The ways from `own_from` on are our kernels, whose times the credit is taken off. The first of each kind
  // is taken until another of its kind has proved clearly quicker.
  Tuning(size_t ways, size_t own_from, const TuningRules& rules);

  size_t ways() const { return ways_.size(); }
  bool over() const { return over_; }
  bool loaded_slowly() const { return loaded_slowly_; }  // the last try_some(), a kernel
  size_t best() const { return best_; }
  // Those that beside another kernel might be the best: at most two of a kind that are nearly as quick as the
  // best of their kind.
  std::vector<size_t> runners_up() const;
  // Whether anything was timed: not while there is no memory for it.
  bool try_some(CudaDevice& device, const TimedProblem& problem);
  // Whether most ways' runs took nearly the same time: else others were at work on the device.
  bool calm() const;
  std::string report() const;  // a line for EPILOGUE_VERBOSE=tuning

 private:
  struct Way {
    std::vector<double> us;  // of each round after the first
    bool fails = false;
    double median_us() const;  // infinite while it is not known
    double least_us() const;   // of at least one
  };
  size_t own_from() const { return own_from_ == 0 ? ways_.size() : own_from_; }  // where a second kind begins
  size_t best_of(size_t from, size_t to, double clearly) const;
  void choose();
  void end_round();
  double scale(double first_us);

  std::vector<Way> ways_;
  size_t own_from_;
  const TuningRules rules_;
  size_t next_ = 0, round_ = 0, best_ = 0;
  std::optional<size_t> challenger_;  // of the first way, in the last rounds
  bool is_long_ = false;              // a run of the best way
  size_t calls_to_pass_ = 0;          // before memory is asked for again
  double first_us_ = 0;               // of the first way, where others are compared with it; 0: not yet
  bool over_ = false, loaded_slowly_ = false;
};

}  // namespace epilogue::cuda
