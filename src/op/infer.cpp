#include "op/infer.h"

#include "base/check.h"
#include "tensor/storage.h"

namespace epilogue {
namespace {

std::string describe(const Tensor& tensor) {
  return fmt::format("{} {}", dtype_name(tensor.dtype()), tensor.sizes().to_string());
}

Layout layout_of(const Tensor& tensor) { return {tensor.sizes(), tensor.strides(), tensor.offset()}; }

Inferred new_tensor(const Tensor& like, const Dims& sizes, int64_t flops = 0) {
  return {like.dtype(), like.device(), {sizes, contiguous_strides(sizes), 0}, flops};
}

void check_inputs(const OpRow& row, std::span<const Tensor> inputs) {
  const auto count = static_cast<int>(inputs.size());
  EP_CHECK(count >= row.fewest_inputs && count <= row.most_inputs, "{}: expected {} inputs, got {}", row.name,
           static_cast<int>(row.fewest_inputs), count);
  for (int i = 0; i < count; ++i)
    EP_CHECK(inputs[i].defined(), "{}: input {} is an undefined tensor", row.name, i);
}

void check_same(const OpRow& row, std::span<const Tensor> inputs) {
  for (size_t i = 1; i < inputs.size(); ++i) {
    EP_CHECK(inputs[i].dtype() == inputs[0].dtype(),
             "{}: inputs must have one dtype, got {} and {}; convert with to()", row.name,
             describe(inputs[0]), describe(inputs[i]));
    EP_CHECK(inputs[i].device() == inputs[0].device(), "{}: inputs must be on one device, got {} and {}",
             row.name, device_name(inputs[0].device()), device_name(inputs[i].device()));
  }
}

void check_floating(const OpRow& row, const Tensor& input) {
  EP_CHECK(dtype_is_floating(input.dtype()), "{}: expected a floating dtype, got {}", row.name,
           describe(input));
}

// Of `elements` that are sums of `terms` products each. What no 64 bits count, no memory holds: the
// allocation will refuse it.
int64_t product_flops(int64_t elements, int64_t terms) {
  int64_t flops = 0;
  const bool over =
      __builtin_mul_overflow(elements, terms, &flops) || __builtin_mul_overflow(flops, int64_t{2}, &flops);
  return over ? INT64_MAX : flops;
}

// [.., m, k] x [.., k, n], where both have `dims` dimensions.
Inferred infer_product(const OpRow& row, const Tensor& a, const Tensor& b, int dims) {
  check_floating(row, a);
  EP_CHECK(a.dim() == dims && b.dim() == dims, "{}: expected two {}-D inputs, got {} and {}", row.name, dims,
           describe(a), describe(b));
  EP_CHECK(a.size(-1) == b.size(-2), "{}: {} times {} does not fit: {} columns against {} rows", row.name,
           describe(a), describe(b), a.size(-1), b.size(-2));
  EP_CHECK(dims == 2 || a.size(0) == b.size(0), "{}: batches differ, {} against {}", row.name, describe(a),
           describe(b));
  Dims sizes = a.sizes();
  sizes[dims - 1] = b.size(-1);
  return new_tensor(a, sizes, product_flops(numel_of(sizes), a.size(-1)));
}

Inferred infer_addmm(const OpRow& row, const Tensor& bias, const Tensor& a, const Tensor& b) {
  Inferred out = infer_product(row, a, b, 2);
  EP_CHECK(bias.dim() <= 2 && broadcast_shapes(bias.sizes(), out.layout.sizes) == out.layout.sizes,
           "{}: bias {} does not broadcast to the product's {}", row.name, describe(bias),
           out.layout.sizes.to_string());
  return out;
}

Inferred infer_linear(const OpRow& row, const Tensor& x, const Tensor& weight, const Tensor* bias) {
  check_floating(row, x);
  EP_CHECK(weight.dim() == 2, "{}: expected a weight of [out, in], got {}", row.name, describe(weight));
  EP_CHECK(x.dim() >= 1 && x.size(-1) == weight.size(1),
           "{}: x {} does not fit weight {}: expected x [..., {}] for a weight of [out, in]", row.name,
           describe(x), describe(weight), weight.size(1));
  if (bias)
    EP_CHECK(bias->dim() == 1 && bias->size(0) == weight.size(0), "{}: expected a bias of [{}], got {}",
             row.name, weight.size(0), describe(*bias));
  Dims sizes = x.sizes();
  sizes[x.dim() - 1] = weight.size(0);
  return new_tensor(x, sizes);
}

Inferred infer_gated(const OpRow& row, Op op, std::span<const Tensor> inputs) {
  const Tensor &x = inputs[0], &gate = inputs[1], &up = inputs[2];
  const size_t weights = op == Op::gated_mlp ? 4 : 3;
  EP_CHECK(inputs.size() == weights || inputs.size() == 2 * weights - 1,
           "{}: expected a bias for each weight or none, got {} inputs", row.name, inputs.size());
  infer_linear(row, x, gate, nullptr);
  EP_CHECK(up.sizes() == gate.sizes(), "{}: gate weight {} and up weight {} differ", row.name, describe(gate),
           describe(up));
  const int64_t hidden = gate.size(0);
  Dims sizes = x.sizes();
  sizes[x.dim() - 1] = hidden;
  int64_t flops = product_flops(numel_of(sizes), x.size(-1));
  const auto add_product = [&flops](int64_t more) {
    if (__builtin_add_overflow(flops, more, &flops)) flops = INT64_MAX;
  };
  add_product(flops);
  if (op == Op::gated_mlp) {
    const Tensor& down = inputs[3];
    EP_CHECK(down.dim() == 2 && down.size(1) == hidden, "{}: expected a down weight of [out, {}], got {}",
             row.name, hidden, describe(down));
    sizes[x.dim() - 1] = down.size(0);
    add_product(product_flops(numel_of(sizes), hidden));
  }
  for (size_t i = weights; i < inputs.size(); ++i) {
    const int64_t width = inputs[i - weights + 1].size(0);
    EP_CHECK(inputs[i].dim() == 1 && inputs[i].size(0) == width, "{}: expected a bias of [{}], got {}",
             row.name, width, describe(inputs[i]));
  }
  return new_tensor(x, sizes, flops);
}

Inferred infer_pointwise(const OpRow& row, Op op, std::span<const Tensor> inputs) {
  if (op != Op::add && op != Op::mul) check_floating(row, inputs[0]);
  if (inputs.size() == 1) return new_tensor(inputs[0], inputs[0].sizes());
  try {
    return new_tensor(inputs[0], broadcast_shapes(inputs[0].sizes(), inputs[1].sizes()));
  } catch (const Error& error) {
    fail("{}: {}", row.name, error.what());
  }
}

Inferred infer_written(const OpRow& row, std::span<const Tensor> inputs) {
  const Tensor& to = inputs[0];
  for (int d = 0; d < to.dim(); ++d)
    EP_CHECK(to.stride(d) != 0 || to.size(d) <= 1,
             "{}: elements of the destination {} share memory (it was expanded)", row.name, describe(to));
  if (inputs.size() == 2)
    EP_CHECK(inputs[1].dim() <= to.dim() && broadcast_shapes(inputs[1].sizes(), to.sizes()) == to.sizes(),
             "{}: {} does not broadcast to the destination {}", row.name, describe(inputs[1]), describe(to));
  return {to.dtype(), to.device(), layout_of(to), 0};
}

Layout infer_view(Op op, const Tensor& in, const Attrs& attrs) {
  const Layout layout = layout_of(in);
  const int64_t* n = attrs.numbers;
  switch (op) {
    case Op::t:
      return view_t(layout);
    case Op::transpose:
      return view_transpose(layout, n[0], n[1]);
    case Op::permute:
      return view_permute(layout, attrs.sizes);
    case Op::view:
      return view_view(layout, attrs.sizes);
    case Op::slice:
      return view_slice(layout, n[0], n[1], n[2], n[3]);
    case Op::select:
      return view_select(layout, n[0], n[1]);
    case Op::squeeze:
      return n[1] ? view_squeeze(layout) : view_squeeze(layout, n[0]);
    case Op::unsqueeze:
      return view_unsqueeze(layout, n[0]);
    case Op::expand:
      return view_expand(layout, attrs.sizes);
    case Op::as_strided:
      return view_as_strided(attrs.sizes, attrs.strides, n[0],
                             static_cast<int64_t>(in.storage()->bytes / dtype_size(in.dtype())));
    default:
      fail("{} is no view", op_row(op).name);
  }
}

}  // namespace

Inferred infer(Op op, std::span<const Tensor> inputs, const Attrs& attrs) {
  const OpRow& row = op_row(op);
  check_inputs(row, inputs);
  const Tensor& first = inputs[0];
  switch (row.op_class) {
    case OpClass::view:
      return {first.dtype(), first.device(), infer_view(op, first, attrs), 0};
    case OpClass::pointwise:
      check_same(row, inputs);
      return infer_pointwise(row, op, inputs);
    case OpClass::gemm:
      check_same(row, inputs);
      if (op == Op::addmm) return infer_addmm(row, first, inputs[1], inputs[2]);
      return infer_product(row, first, inputs[1], op == Op::bmm ? 3 : 2);
    case OpClass::gated:
      check_same(row, inputs);
      return infer_gated(row, op, inputs);
    case OpClass::copy: {
      if (op != Op::to) return infer_written(row, inputs);
      return {attrs.dtype, attrs.device, {first.sizes(), contiguous_strides(first.sizes()), 0}, 0};
    }
    case OpClass::composite:
      break;
    case OpClass::fused:
      fail("{}: only a compiled function runs it", row.name);
  }
  if (op == Op::linear) {
    check_same(row, inputs);
    return infer_linear(row, first, inputs[1], inputs.size() == 3 ? &inputs[2] : nullptr);
  }
  if (op == Op::matmul) {
    check_same(row, inputs);
    EP_CHECK(first.dim() >= 1 && inputs[1].dim() >= 1, "{}: expected inputs with dimensions, got {} and {}",
             row.name, describe(first), describe(inputs[1]));
  }
  return new_tensor(first, first.sizes());
}

}  // namespace epilogue
