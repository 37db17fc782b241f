// THE way an op takes: its event is opened, its inputs are checked, and then a kernel runs.
#pragma once

#include <span>

#include "op/op.h"

namespace epilogue {

// Runs any op of ops.def but the composite ones, which call this for their parts (composite.cpp).
Tensor dispatch(Op op, std::span<const Tensor> inputs, const Attrs& attrs = {});

// The composite ops, each under its own event.
Tensor run_linear(std::span<const Tensor> inputs);
Tensor run_matmul(const Tensor& a, const Tensor& b);
Tensor run_reshape(const Tensor& x, const Dims& sizes);
Tensor run_contiguous(const Tensor& x);

}  // namespace epilogue
