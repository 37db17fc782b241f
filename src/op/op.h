// The op identifiers, their rows, and what a call carries besides tensors.
#pragma once

#include <cstdint>

#include "epilogue/ops.h"
#include "epilogue/tensor.h"

namespace epilogue {

enum class Op : uint8_t {
#define OP(name, cls, fewest, most) name,
#include "op/ops.def"
#undef OP
};

enum class OpClass : uint8_t { composite, view, gemm, gated, pointwise, copy, fused };

struct OpRow {
  const char* name;  // "ep::linear"
  OpClass op_class;
  int8_t fewest_inputs, most_inputs;
};
const OpRow& op_row(Op op);
void check_known(Act act);  // throws Error on a number that was cast to one

struct AskedImplementation;  // backend/backend.h

// Only the fields an op names in infer.cpp mean anything for it.
struct Attrs {
  GeluApproximate approximate = GeluApproximate::none;  // gelu, gelu_mul
  Act act = Act::none;                                  // gated_linear, gated_mlp
  DType dtype = DType::f32;                             // to
  Device device{};                                      // to
  double value = 0;                                     // fill_
  int64_t numbers[4] = {};                              // transpose: dims; slice: dim, start, end, step; ...
  Dims sizes, strides;                                  // view, expand, permute, as_strided
  // A kernel to run instead of the backend's own choice, of any op; lives as long as the process.
  const AskedImplementation* implementation = nullptr;
};

}  // namespace epilogue
