// ATen: PyTorch's own kernels, C++ templates whose arguments name the functor that is applied.
#include <algorithm>

#include <fmt/format.h>

#include "trace/kernel_name_parse.h"

namespace epilogue::trace {
namespace {

struct Function {
  std::string_view prefix;
  std::string_view op;
};
constexpr Function kFunctions[] = {
    {"vectorized_elementwise_kernel", "pointwise"},
    {"unrolled_elementwise_kernel", "pointwise"},
    {"elementwise_kernel", "pointwise"},
    {"index_elementwise_kernel", "index"},
    {"reduce_kernel", "reduction"},
    {"softmax_warp_", "softmax"},
    {"cunn_SoftMax", "softmax"},
    {"vectorized_layer_norm_kernel", "normalisation"},
    {"RowwiseMomentsCUDAKernel", "normalisation"},
    {"LayerNormForwardCUDAKernel", "normalisation"},
    {"layer_norm_grad_input_kernel", "normalisation"},
    {"GammaBetaBackwardCUDAKernel", "normalisation"},
    {"batch_norm_", "normalisation"},
    {"CatArrayBatchedCopy", "copy"},
    {"indexSelect", "index"},
    {"index_", "index"},
    {"vectorized_gather_kernel", "index"},
    {"embedding_", "index"},
    {"multi_tensor_apply_kernel", "pointwise"},
    {"distribution_", "random"},
    {"nll_loss_", "loss"},
    {"upsample_", "interpolation"},
    {"vol2col_kernel", "copy"},
    {"im2col_kernel", "copy"},
    {"triu_tril_kernel", "pointwise"},
};

// "at::native::(anonymous namespace)::silu_kernel(at::TensorIteratorBase&)::{lambda()#1}...": "silu_kernel"
std::string_view functor_name(std::string_view functor) {
  const CppName cpp = parse_cpp(functor);
  if (cpp.function != "operator") return cpp.function;
  return parse_cpp(cpp.scope.substr(0, cpp.scope.size() - std::min<size_t>(2, cpp.scope.size()))).function;
}

// The element type of the innermost lambda's first parameter, or of the functor's first template argument.
std::string_view functor_type(std::string_view functor) {
  const size_t lambda = functor.rfind("lambda(");
  if (lambda != functor.npos) {
    std::string_view parameters = functor.substr(lambda + 7);
    const size_t end = parameters.find_first_of(",)");
    parameters = parameters.substr(0, end);
    if (!element_type(parameters).empty()) return parameters;
  }
  const CppName cpp = parse_cpp(functor);
  return cpp.arguments.empty() ? std::string_view{} : cpp.arguments[0];
}

// "tanh" or "erf": in GeluCUDAKernelImpl the first lambda is the tanh form, the second the erf form.
std::string_view gelu_form(std::string_view functor) {
  const std::string_view lambda = template_from(functor, "lambda()").substr(0, 21);
  if (lambda.starts_with("lambda()#1") || lambda.starts_with("lambda() (instance 1)")) return "tanh";
  if (lambda.starts_with("lambda()#2") || lambda.starts_with("lambda() (instance 2)")) return "erf";
  return {};
}

void set_functor(std::string_view functor, NameBuilder& out) {
  const std::string_view name = functor_name(functor);
  const bool gelu = name == "GeluCUDAKernelImpl" || name == "GeluBackwardCUDAKernelImpl";
  if (gelu && !gelu_form(functor).empty())
    out.convention(NameField::runs, fmt::format("{}<{}>", name, gelu_form(functor)), name);
  else
    out.stated(NameField::runs, std::string(name), name);
  if (contains(name, "copy_kernel")) out.stated(NameField::op, "copy", name);
  if (name == "FillFunctor") out.stated(NameField::op, "fill", name);
  const std::string_view type = functor_type(functor);
  if (!type.empty() && out.kernel().value(NameField::a).empty())
    out.convention(NameField::a, element_type(type), type);
}

// Wrappers around the functor are peeled off, at most this many.
constexpr int kMaxWrappers = 8;

void explain_functor(std::string_view functor, NameBuilder& out) {
  for (int i = 0; i < kMaxWrappers; ++i) {
    if (functor.starts_with("void ")) functor.remove_prefix(5);
    const CppName cpp = parse_cpp(functor);
    const Words& inner = cpp.arguments;
    if (inner.empty()) break;
    if (cpp.function.starts_with("gpu_kernel_impl") || cpp.function == "gpu_index_kernel" ||
        cpp.function == "gpu_kernel_multiple_outputs_impl") {
      functor = inner[0];
    } else if (inner.size() >= 4 && cpp.function.ends_with("Functor") &&
               (cpp.function == "BinaryFunctor" || cpp.function == "AUnaryFunctor" ||
                cpp.function == "BUnaryFunctor")) {
      out.convention(NameField::a, element_type(inner[0]), inner[0]);
      out.convention(NameField::b, element_type(inner[1]), inner[1]);
      out.convention(NameField::d, element_type(inner[2]), inner[2]);
      if (cpp.function != "BinaryFunctor")
        out.feature("one operand is a scalar", Certainty::convention, cpp.function);
      functor = inner[3];
    } else if (inner.size() >= 4 && cpp.function == "ReduceOp") {
      out.convention(NameField::a, element_type(inner[0]), inner[0]);
      out.convention(NameField::d, element_type(inner[3]), inner[3]);
      functor = inner[1];
    } else if (inner.size() >= 2 && cpp.function == "func_wrapper_t") {
      functor = inner[1];
    } else {
      break;
    }
  }
  set_functor(functor, out);
}

void explain_elementwise(const CppName& cpp, NameBuilder& out) {
  const Words& args = cpp.arguments;
  if (cpp.function.starts_with("vectorized_") && args.size() >= 2) {
    out.convention(NameField::vector_width, std::string(plain_argument(args[0])), args[0]);
    explain_functor(args[1], out);
  } else if (cpp.function.starts_with("unrolled_") && !args.empty()) {
    explain_functor(args[0], out);
  } else if (args.size() >= 3) {
    out.feature(fmt::format("{} threads, {} elements each", plain_argument(args[0]), plain_argument(args[1])),
                Certainty::convention, fmt::format("{}, {}", args[0], args[1]));
    explain_functor(args[2], out);
  }
}

void explain_types(const CppName& cpp, std::span<const NameField> order, NameBuilder& out) {
  for (size_t i = 0; i < order.size() && i < cpp.arguments.size(); ++i)
    out.convention(order[i], element_type(cpp.arguments[i]), cpp.arguments[i]);
}

void explain_arguments(const CppName& cpp, NameBuilder& out) {
  const Words& args = cpp.arguments;
  if (contains(cpp.function, "elementwise_kernel")) return explain_elementwise(cpp, out);
  if (cpp.function == "reduce_kernel" && args.size() >= 3) {
    out.convention(NameField::vector_width, std::string(plain_argument(args[1])), args[1]);
    return explain_functor(args[2], out);
  }
  out.stated(NameField::runs, std::string(cpp.function), cpp.function);
  if (cpp.function.starts_with("softmax_warp_")) {
    constexpr NameField kOrder[] = {NameField::a, NameField::d, NameField::accumulator};
    explain_types(cpp, kOrder, out);
  } else if (cpp.function == "vectorized_layer_norm_kernel") {
    constexpr NameField kOrder[] = {NameField::a, NameField::accumulator};
    explain_types(cpp, kOrder, out);
  } else if (cpp.function.starts_with("cunn_SoftMax") && args.size() >= 4) {
    out.convention(NameField::vector_width, std::string(plain_argument(args[0])), args[0]);
    out.convention(NameField::a, element_type(args[1]), args[1]);
    out.convention(NameField::accumulator, element_type(args[2]), args[2]);
  } else if (cpp.function == "multi_tensor_apply_kernel" && args.size() >= 2) {
    set_functor(args[1], out);
  } else if (!args.empty()) {
    out.convention(NameField::a, element_type(args[0]), args[0]);
  }
}

}  // namespace

bool explain_aten(const CppName& cpp, NameBuilder& out) {
  const auto* row =
      std::ranges::find_if(kFunctions, [&](const Function& f) { return cpp.function.starts_with(f.prefix); });
  const bool known = row != std::end(kFunctions);
  const bool scoped = cpp.scope.starts_with("at::");
  // softmax_warp_forward and its like live in an anonymous namespace of their own.
  const bool unscoped = known && !cpp.arguments.empty() &&
                        (cpp.scope == "(anonymous namespace)::" || cpp.scope == "<unnamed>::");
  if (!scoped && !unscoped) return false;
  out.family("PyTorch", "aten", scoped ? cpp.scope : cpp.function,
             scoped ? Certainty::stated : Certainty::convention);
  out.stated(NameField::function, std::string(cpp.function), cpp.function);
  if (known) out.convention(NameField::op, std::string(row->op), cpp.function);
  explain_arguments(cpp, out);
  return true;
}

}  // namespace epilogue::trace
