#include "op/dispatch.h"

#include "backend/backend.h"
#include "base/check.h"
#include "op/infer.h"
#include "profile/event.h"
#include "tensor/storage.h"

namespace epilogue {
namespace {

std::atomic<int> recording_threads{0};  // spares the others a look at their thread's own
thread_local Recorder* recorder = nullptr;

// Copies between devices move bytes; converting and striding happen on either side.
Tensor run_to_device(const Tensor& source, const Inferred& out) {
  const Tensor packed = run_contiguous(source.dtype() == out.dtype ? source : source.to(out.dtype));
  Tensor moved = empty(out.layout.sizes, {out.dtype, out.device});
  const Device worker = out.device.type == DeviceType::cpu ? source.device() : out.device;
  if (moved.numel() > 0)
    backend_for(worker).copy_bytes(moved.mutable_data(), moved.device(), packed.data(), packed.device(),
                                   moved.nbytes());
  return moved;
}

// A copy between devices that needs neither converting nor striding.
bool moves_whole(const Tensor& to, const Tensor& from) {
  return to.dtype() == from.dtype() && to.sizes() == from.sizes() && to.is_contiguous() &&
         from.is_contiguous();
}

bool overlaps_elsewhere(const Tensor& to, const Tensor& from) {
  return to.shares_storage_with(from) && !(to.offset() == from.offset() && to.strides() == from.strides());
}

Tensor run_in_place(Op op, std::span<const Tensor> inputs, const Attrs& attrs) {
  Tensor output = inputs[0];
  if (output.numel() == 0) return output;
  if (op == Op::copy_ && inputs[1].device() != output.device()) {
    if (moves_whole(output, inputs[1])) {
      const Device worker = output.device().type == DeviceType::cpu ? inputs[1].device() : output.device();
      backend_for(worker).copy_bytes(output.mutable_data(), output.device(), inputs[1].data(),
                                     inputs[1].device(), output.nbytes());
      return output;
    }
    const Attrs there{.dtype = output.dtype(), .device = output.device()};
    const Tensor moved[] = {output, dispatch(Op::to, inputs.subspan(1, 1), there)};
    return run_in_place(op, moved, attrs);
  }
  // A destination that overlaps its source elsewhere would be read after it was written.
  if (op == Op::copy_ && overlaps_elsewhere(output, inputs[1])) {
    const Attrs same{.dtype = inputs[1].dtype(), .device = output.device()};
    const Tensor apart[] = {output, dispatch(Op::to, inputs.subspan(1, 1), same)};
    return run_in_place(op, apart, attrs);
  }
  output.mutable_data();  // raises the version
  backend_for(output.device()).launch({op, attrs, inputs.subspan(1), output});
  return output;
}

}  // namespace

RecordingScope::RecordingScope(Recorder& r) : outer_(recorder) {
  recorder = &r;
  recording_threads.fetch_add(1, std::memory_order_relaxed);
}

RecordingScope::~RecordingScope() {
  recorder = outer_;
  recording_threads.fetch_sub(1, std::memory_order_relaxed);
}

bool is_recording() { return recording_threads.load(std::memory_order_relaxed) != 0 && recorder != nullptr; }

Tensor dispatch(Op op, std::span<const Tensor> inputs, const Attrs& attrs) {
  if (is_recording()) [[unlikely]]
    return recorder->record(op, inputs, attrs);
  const OpRow& row = op_row(op);
  const profile::OpScope scope(row.name, inputs);
  const Inferred out = infer(op, inputs, attrs);
  if (row.op_class == OpClass::view)
    return Tensor::over(inputs[0].storage_ref(), out.dtype, out.layout.sizes, out.layout.strides,
                        out.layout.offset);
  if (op == Op::copy_ || op == Op::fill_) return run_in_place(op, inputs, attrs);
  if (op == Op::to && out.device != inputs[0].device()) return run_to_device(inputs[0], out);

  Tensor output = empty(out.layout.sizes, {out.dtype, out.device});
  if (output.numel() > 0) backend_for(out.device).launch({op, attrs, inputs, output, out.flops});
  return output;
}

Tensor dispatch_if_taken(Op op, std::span<const Tensor> inputs, const Attrs& attrs) {
  if (is_recording()) return {};
  const Inferred out = infer(op, inputs, attrs);
  Tensor output = empty(out.layout.sizes, {out.dtype, out.device});
  const KernelCall call{op, attrs, inputs, output, out.flops};
  Backend& backend = backend_for(out.device);
  if (output.numel() == 0) return {};
  if (profile::recording_now() == 0 && backend.run_again(call)) return output;
  if (!backend.takes(call)) return {};
  const profile::OpScope scope(op_row(op).name, inputs);
  backend.launch(call);
  return output;
}

std::vector<Refusal> refusals(Op op, std::span<const Tensor> inputs, const Attrs& attrs) {
  const Inferred out = infer(op, inputs, attrs);
  Tensor output = empty(out.layout.sizes, {out.dtype, out.device});
  return backend_for(out.device).refusals({op, attrs, inputs, output, out.flops});
}

}  // namespace epilogue
