#include "backend/pointwise_function.h"

#include "base/check.h"

namespace epilogue {

Pointwise pointwise_function(Op op, const Attrs& attrs) {
  const bool tanh = attrs.approximate == GeluApproximate::tanh;
  switch (op) {
    case Op::add:
      return Pointwise::add;
    case Op::mul:
      return Pointwise::mul;
    case Op::relu:
      return Pointwise::relu;
    case Op::silu:
      return Pointwise::silu;
    case Op::gelu:
      return tanh ? Pointwise::gelu_tanh : Pointwise::gelu;
    case Op::silu_mul:
      return Pointwise::silu_mul;
    case Op::gelu_mul:
      return tanh ? Pointwise::gelu_tanh_mul : Pointwise::gelu_mul;
    default:
      fail("pointwise_function: {} is not pointwise", op_row(op).name);
  }
}

}  // namespace epilogue
