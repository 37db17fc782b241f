#include <array>
#include <vector>

#include "backend/cuda/device.h"
#include "backend/cuda/gated.h"
#include "backend/cuda/gemm.h"

namespace epilogue::cuda {
namespace {

// Inputs: x, gate, up, down, then their three biases or none.
bool has_biases(const KernelCall& call) { return call.inputs.size() == 7; }

Dims hidden_sizes(const KernelCall& call) {
  const Tensor &x = call.inputs[0], &gate = call.inputs[1];
  return {x.numel() / gate.size(1), gate.size(0)};
}

// What `body` gives for the call of the gated kernel alone, which writes `hidden`.
template <class Body>
auto as_gated_linear(const KernelCall& call, Tensor& hidden, Body&& body) {
  const auto in = call.inputs;
  if (!has_biases(call)) return body({Op::gated_linear, call.attrs, in.first(3), hidden});
  const std::array inputs{in[0], in[1], in[2], in[4], in[5]};
  return body({Op::gated_linear, call.attrs, inputs, hidden});
}

KernelRan run_down(const KernelCall& call, const Tensor& hidden) {
  static const Attrs kNoAttrs;
  const auto in = call.inputs;
  std::vector<Tensor> inputs;
  if (has_biases(call)) inputs.push_back(in[6]);
  inputs.insert(inputs.end(), {hidden, in[3].t()});
  Tensor out = call.output.view({hidden.size(0), in[3].size(0)});
  return run_gemm_after_gated({has_biases(call) ? Op::addmm : Op::mm, kNoAttrs, inputs, out});
}

}  // namespace

// Asked at every call that is not replayed, so nothing is built but what the gated kernel must see.
const char* refuse_gated_mlp(const KernelCall& call) {
  const Tensor& down = call.inputs[3];
  if (call.inputs[1].size(1) == 0) return "nothing to sum over";
  const Dims sizes = hidden_sizes(call);
  const auto bytes = static_cast<size_t>(sizes[0] * sizes[1]) * dtype_size(call.output.dtype());
  if (bytes > kBetweenKernelsBytes) return "the hidden tensor is large: another launch costs nothing there";
  if (!down.is_contiguous() || (has_biases(call) && !call.inputs[6].is_contiguous()))
    return "the last weight or bias has gaps";
  // Somewhere as well aligned as the hidden tensor will be.
  Tensor hidden = Tensor::over(call.output.storage_ref(), call.output.dtype(), sizes, {sizes[1], 1}, 0);
  return as_gated_linear(call, hidden, refuse_gated_linear);
}

KernelRan run_gated_mlp(const KernelCall& call) {
  CudaDevice& device = device_of(call.output);
  const Capture* capture = device.capture();
  const Dims sizes = hidden_sizes(call);
  const DType dtype = call.output.dtype();
  Tensor hidden = capture && capture->one_call
                      ? Tensor::over(capture->workspace, dtype, sizes, {sizes[1], 1},
                                     static_cast<int64_t>(kWorkspaceBytes / dtype_size(dtype)))
                      : empty(sizes, {dtype, call.output.device()});
  const KernelRan gated = as_gated_linear(
      call, hidden, [&](const KernelCall& first) { return run_gated_linear_before(first, call.inputs[3]); });
  device.launch_is_over();
  const KernelRan down = run_down(call, hidden);
  return {.name = "gated_mlp", .repeatable = gated.repeatable && down.repeatable};
}

}  // namespace epilogue::cuda
