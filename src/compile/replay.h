// A plan's whole call recorded as one graph of the device and launched as one: for small batches, where
// launches cost more than kernels.
#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include "compile/plan.h"
#include "epilogue/device.h"

namespace epilogue::compiler {

// Any thread may run it; calls take turns.
class Replay {
 public:
  explicit Replay(std::shared_ptr<const Plan> plan) : plan_(std::move(plan)) {}

  // Whether everything is on one device that records, and the inputs are contiguous.
  static bool fits(const Plan& plan, std::span<const Tensor> inputs);
  // Copies the inputs to where the recording reads them, replays it, and gives copies of the outputs. Records
  // at the first call, and again after a weight that is stacked was written.
  std::vector<Tensor> run(std::span<const Tensor> inputs);

 private:
  void record(std::span<const Tensor> inputs);

  const std::shared_ptr<const Plan> plan_;
  std::mutex mutex_;
  std::vector<Tensor> inputs_, outputs_;
  std::optional<epilogue::Graph> recording_;
  int64_t recorded_constants_ = 0;
};

}  // namespace epilogue::compiler
