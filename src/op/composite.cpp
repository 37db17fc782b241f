// The ops that run no kernel of their own.
#include "op/dispatch.h"
#include "op/infer.h"
#include "profile/event.h"

namespace epilogue {

// Spelt out, since -1 has no answer where k is 0.
Tensor fold_rows(const Tensor& x) {
  return run_reshape(x, {numel_of(Dims(x.sizes().begin(), static_cast<size_t>(x.dim() - 1))), x.size(-1)});
}

namespace {

Tensor view_as(const Tensor& x, const Dims& sizes) {
  return dispatch(Op::view, std::span(&x, 1), {.sizes = sizes});
}

// The batched product: leading dimensions broadcast, then one bmm.
Tensor batched_product(const Tensor& a, const Tensor& b) {
  const auto lead = [](const Tensor& x) { return Dims(x.sizes().begin(), static_cast<size_t>(x.dim() - 2)); };
  const Dims batch = broadcast_shapes(lead(a), lead(b));
  const auto folded = [&batch](const Tensor& x) {
    Dims sizes = batch;
    sizes.push_back(x.size(-2));
    sizes.push_back(x.size(-1));
    return run_reshape(x.expand(sizes), {numel_of(batch), x.size(-2), x.size(-1)});
  };
  Dims sizes = batch;
  sizes.push_back(a.size(-2));
  sizes.push_back(b.size(-1));
  return view_as(bmm(folded(a), folded(b)), sizes);
}

}  // namespace

Tensor run_linear(std::span<const Tensor> inputs) {
  const profile::OpScope scope(op_row(Op::linear).name, inputs);
  const Inferred out = infer(Op::linear, inputs, {});
  const Tensor& x = inputs[0];
  const Tensor weight_t = dispatch(Op::t, inputs.subspan(1, 1));
  const Tensor rows = x.dim() == 2 ? x : fold_rows(x);
  const bool has_bias = inputs.size() == 3;
  const Tensor operands[] = {has_bias ? inputs[2] : rows, has_bias ? rows : weight_t, weight_t};
  const Tensor product = has_bias ? dispatch(Op::addmm, operands) : dispatch(Op::mm, std::span(operands, 2));
  return x.dim() == 2 ? product : view_as(product, out.layout.sizes);
}

Tensor run_matmul(const Tensor& a, const Tensor& b) {
  const Tensor inputs[] = {a, b};
  const profile::OpScope scope(op_row(Op::matmul).name, inputs);
  infer(Op::matmul, inputs, {});
  if (a.dim() == 1) {
    const Tensor product = run_matmul(a.unsqueeze(0), b.dim() == 1 ? b.unsqueeze(1) : b);
    return b.dim() == 1 ? product.view({}) : product.squeeze(-2);
  }
  if (b.dim() == 1) return run_matmul(a, b.unsqueeze(1)).squeeze(-1);
  if (b.dim() > 2) return batched_product(a, b);
  if (a.dim() == 2) return mm(a, b);
  Dims sizes = a.sizes();
  sizes[a.dim() - 1] = b.size(1);
  return view_as(mm(fold_rows(a), b), sizes);
}

Tensor run_reshape(const Tensor& x, const Dims& sizes) {
  const profile::OpScope scope(op_row(Op::reshape).name, std::span(&x, 1));
  infer(Op::reshape, std::span(&x, 1), {});
  const Dims resolved = resolve_sizes("reshape", sizes, x.numel());
  Dims strides;
  const bool possible = view_strides({x.sizes(), x.strides(), x.offset()}, resolved, strides);
  return view_as(possible ? x : run_contiguous(x), resolved);
}

Tensor run_contiguous(const Tensor& x) {
  if (x.is_contiguous()) return x;
  const profile::OpScope scope(op_row(Op::contiguous).name, std::span(&x, 1));
  return dispatch(Op::to, std::span(&x, 1), {.dtype = x.dtype(), .device = x.device()});
}

}  // namespace epilogue
