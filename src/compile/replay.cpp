#include "compile/replay.h"

#include <algorithm>

#include "profile/event.h"

namespace epilogue::compiler {
namespace {

Tensor copy_of(const Tensor& tensor) {
  return empty(tensor.sizes(), {tensor.dtype(), tensor.device()}).copy_(tensor);
}

}  // namespace

bool Replay::fits(const Plan& plan, std::span<const Tensor> inputs) {
  const graph::Graph& graph = plan.graph();
  if (inputs.empty() || inputs[0].device().type == DeviceType::cpu) return false;
  const auto there = [&](const auto& value) { return value.device == inputs[0].device(); };
  return std::ranges::all_of(graph.values, there) &&
         std::ranges::all_of(inputs, [](const Tensor& input) { return input.is_contiguous(); });
}

void Replay::record(std::span<const Tensor> inputs) {
  const profile::Scope event(trace::EventKind::overhead, "ep::record");
  // It reads the inputs that go; were the new one not to be had, the next call tries again.
  recording_.reset();
  inputs_.clear();
  for (const Tensor& input : inputs) inputs_.push_back(copy_of(input));
  recorded_constants_ = plan_->refresh_constants();
  recording_ = epilogue::Graph::capture(inputs[0].device(), [this] { outputs_ = plan_->run(inputs_); });
}

std::vector<Tensor> Replay::run(std::span<const Tensor> inputs) {
  const std::lock_guard lock(mutex_);
  if (!recording_ || plan_->refresh_constants() != recorded_constants_) record(inputs);
  for (size_t i = 0; i < inputs.size(); ++i) inputs_[i].copy_(inputs[i]);
  recording_->replay();
  std::vector<Tensor> results;
  for (const Tensor& output : outputs_) results.push_back(copy_of(output));
  return results;
}

}  // namespace epilogue::compiler
