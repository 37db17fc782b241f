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
};

// Goes on with the problem's tuning: run(way) launches a way once, choice(way) is what is kept of it in the
// end. Several threads may come, in turn. Nothing is timed while the thread records or a profiler does: a
// recording cannot be timed, and a profile shows what was asked for alone. Timing writes to the output, which
// the caller writes again.
TuningState tune(CudaDevice& device, const GemmKey& key, size_t ways, const std::function<bool(size_t)>& run,
                 const std::function<GemmChoice(size_t)>& choice);

}  // namespace epilogue::cuda
