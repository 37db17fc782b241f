// The public functions and Tensor's methods: each names its op and carries its arguments to dispatch.
#include "epilogue/ops.h"

#include "base/check.h"
#include "op/dispatch.h"

namespace epilogue {
namespace {

Tensor unary(Op op, const Tensor& x, const Attrs& attrs = {}) {
  return dispatch(op, std::span(&x, 1), attrs);
}

Tensor binary(Op op, const Tensor& a, const Tensor& b, const Attrs& attrs = {}) {
  const Tensor inputs[] = {a, b};
  return dispatch(op, inputs, attrs);
}

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const Tensor inputs[] = {x, weight, bias};
  return run_linear(std::span(inputs, bias.defined() ? 3 : 2));
}

Tensor addmm(const Tensor& bias, const Tensor& a, const Tensor& b) {
  const Tensor inputs[] = {bias, a, b};
  return dispatch(Op::addmm, inputs);
}

Tensor mm(const Tensor& a, const Tensor& b) { return binary(Op::mm, a, b); }
Tensor bmm(const Tensor& a, const Tensor& b) { return binary(Op::bmm, a, b); }
Tensor matmul(const Tensor& a, const Tensor& b) { return run_matmul(a, b); }
Tensor add(const Tensor& a, const Tensor& b) { return binary(Op::add, a, b); }
Tensor mul(const Tensor& a, const Tensor& b) { return binary(Op::mul, a, b); }
Tensor gelu(const Tensor& x, GeluApproximate approximate) {
  return unary(Op::gelu, x, {.approximate = approximate});
}
Tensor silu(const Tensor& x) { return unary(Op::silu, x); }
Tensor relu(const Tensor& x) { return unary(Op::relu, x); }
Tensor gelu_mul(const Tensor& gate, const Tensor& up, GeluApproximate approximate) {
  return binary(Op::gelu_mul, gate, up, {.approximate = approximate});
}
Tensor silu_mul(const Tensor& gate, const Tensor& up) { return binary(Op::silu_mul, gate, up); }

Tensor activation(const Tensor& x, Act act) {
  check_known(act);
  switch (act) {
    case Act::none:
      return x;
    case Act::relu:
      return relu(x);
    case Act::silu:
      return silu(x);
    case Act::gelu_tanh:
      return gelu(x, GeluApproximate::tanh);
    case Act::gelu:
      return gelu(x, GeluApproximate::none);
  }
  return x;
}

bool has_act_mul(Act act) { return act != Act::none && act != Act::relu; }

Tensor activation_mul(const Tensor& gate, const Tensor& up, Act act) {
  check_known(act);
  if (!has_act_mul(act)) return mul(activation(gate, act), up);
  if (act == Act::silu) return silu_mul(gate, up);
  return gelu_mul(gate, up, act == Act::gelu_tanh ? GeluApproximate::tanh : GeluApproximate::none);
}

Tensor Tensor::t() const { return unary(Op::t, *this); }
Tensor Tensor::transpose(int dim0, int dim1) const {
  return unary(Op::transpose, *this, {.numbers = {dim0, dim1}});
}
Tensor Tensor::permute(const Dims& order) const { return unary(Op::permute, *this, {.sizes = order}); }
Tensor Tensor::view(const Dims& sizes) const { return unary(Op::view, *this, {.sizes = sizes}); }
Tensor Tensor::reshape(const Dims& sizes) const { return run_reshape(*this, sizes); }
Tensor Tensor::slice(int dim, int64_t start, int64_t end, int64_t step) const {
  return unary(Op::slice, *this, {.numbers = {dim, start, end, step}});
}
Tensor Tensor::select(int dim, int64_t index) const {
  return unary(Op::select, *this, {.numbers = {dim, index}});
}
Tensor Tensor::squeeze() const { return unary(Op::squeeze, *this, {.numbers = {0, 1}}); }
Tensor Tensor::squeeze(int dim) const { return unary(Op::squeeze, *this, {.numbers = {dim, 0}}); }
Tensor Tensor::unsqueeze(int dim) const { return unary(Op::unsqueeze, *this, {.numbers = {dim}}); }
Tensor Tensor::expand(const Dims& sizes) const { return unary(Op::expand, *this, {.sizes = sizes}); }
Tensor Tensor::as_strided(const Dims& sizes, const Dims& strides, int64_t offset) const {
  return unary(Op::as_strided, *this, {.numbers = {offset}, .sizes = sizes, .strides = strides});
}
Tensor Tensor::contiguous() const { return run_contiguous(*this); }
Tensor Tensor::to(DType dtype) const {
  return defined() && dtype == dtype_ ? *this : unary(Op::to, *this, {.dtype = dtype, .device = device()});
}
Tensor Tensor::to(Device device) const {
  return defined() && device == this->device() ? *this
                                               : unary(Op::to, *this, {.dtype = dtype_, .device = device});
}
Tensor& Tensor::copy_(const Tensor& source) {
  binary(Op::copy_, *this, source);
  return *this;
}

double Tensor::item() const {
  EP_CHECK(numel() == 1, "item: expected one element, got sizes {}", sizes_.to_string());
  return *to(Device{}).to(DType::f64).data<double>();
}

}  // namespace epilogue
