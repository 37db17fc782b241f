// The only place that checks what an op is called with: input count, shapes, dtypes, devices.
#pragma once

#include <span>

#include "op/op.h"
#include "tensor/view.h"

namespace epilogue {

struct Inferred {
  DType dtype = DType::f32;
  Device device{};
  Layout layout;      // a view's over its input's storage; contiguous for a new tensor
  int64_t flops = 0;  // two per multiply-add of a gemm, otherwise 0
};

// What `op` gives for these inputs. Throws Error with the op, the shapes and what was expected.
Inferred infer(Op op, std::span<const Tensor> inputs, const Attrs& attrs);

}  // namespace epilogue
