// THE way an op takes: its event is opened, its inputs are checked, and then a kernel runs, or, while this
// thread captures a graph, a node joins it.
#pragma once

#include <atomic>
#include <span>
#include <string>
#include <vector>

#include "op/op.h"

namespace epilogue {

struct Refusal;  // backend/backend.h

// Runs any op of ops.def but the composite ones, which call this for their parts (composite.cpp).
Tensor dispatch(Op op, std::span<const Tensor> inputs, const Attrs& attrs = {});

// The same where the device has an implementation that takes the call, otherwise an undefined tensor; so it
// is for a thread that captures, whose graph is better served by the parts.
Tensor dispatch_if_taken(Op op, std::span<const Tensor> inputs, const Attrs& attrs);

// Why it would be undefined, for a thread that does not capture: what each implementation of the op says.
std::vector<Refusal> refusals(Op op, std::span<const Tensor> inputs, const Attrs& attrs);

// What takes the ops of a thread that captures (graph/capture.h).
class Recorder {
 public:
  virtual ~Recorder() = default;
  // Checks the call as infer does, notes it, and gives a tensor that stands for its result.
  virtual Tensor record(Op op, std::span<const Tensor> inputs, const Attrs& attrs) = 0;
};

// Ops of this thread go to `recorder` until the scope ends. Scopes nest.
class RecordingScope {
 public:
  explicit RecordingScope(Recorder& recorder);
  ~RecordingScope();
  RecordingScope(const RecordingScope&) = delete;
  RecordingScope& operator=(const RecordingScope&) = delete;

 private:
  Recorder* outer_;
};

bool is_recording();  // whether this thread captures

// The composite ops, each under its own event.
Tensor run_linear(std::span<const Tensor> inputs);
Tensor run_matmul(const Tensor& a, const Tensor& b);
Tensor run_reshape(const Tensor& x, const Dims& sizes);
Tensor run_contiguous(const Tensor& x);
Tensor fold_rows(const Tensor& x);  // [..., k] as [rows, k]

}  // namespace epilogue
