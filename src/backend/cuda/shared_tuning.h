// Tunings of a device's problems, shared by its threads, and where their outcome is kept.
#pragma once

#include <functional>

#include "backend/cuda/device.h"
#include "backend/cuda/gemm_choices.h"

namespace epilogue::cuda {

GemmChoices& choices_of(CudaDevice& device);

struct TuningState {
  size_t best = 0;
  bool over = false;
  bool timed = false;  // this time: the output holds what the last way that was timed wrote
};

struct WaysToTune {
  size_t count = 0;
  size_t own_from = 0;                       // see Tuning
  const void* x = nullptr;                   // the rows that come from the kernel before, and
  size_t x_bytes = 0;                        // their bytes
  std::function<bool(size_t)> run;           // launches a way once; false when it cannot
  std::function<GemmChoice(size_t)> choice;  // what is kept of it in the end
};

// Goes on with the problem's tuning. Several threads may come, in turn. Nothing is timed while the thread
// records or a profiler does: a recording cannot be timed, and a profile shows what was asked for alone.
// Timing writes to the output, which the caller writes again. A kernel that was slow to load makes the thread
// leave the next products alone.
TuningState tune(CudaDevice& device, const GemmKey& key, const WaysToTune& ways);

}  // namespace epilogue::cuda
