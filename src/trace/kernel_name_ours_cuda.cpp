// Our own kernels on the GPU, C++ templates of the namespace epilogue::cuda (src/backend/cuda/kernels).
#include <algorithm>

#include <fmt/format.h>

#include "trace/kernel_name_parse.h"

namespace epilogue::trace {
namespace {

constexpr std::string_view kOurScope = "epilogue::cuda::";

// Where a product's shape, XShape<dtype, gated, ...>, says what; -1: nowhere. Row_mma has no gated kind.
struct ShapeGrammar {
  std::string_view function;
  int rows, columns, split, ping_pong;
};
constexpr ShapeGrammar kProductShapes[] = {
    {"tile_gemm", 2, 3, -1, 4},   {"mlp_gemm", 2, 3, -1, 4},        {"swap_gemm", 2, 3, -1, -1},
    {"skinny_gemm", 3, 2, 4, -1}, {"row_dot_gemm", -1, -1, -1, -1}, {"row_mma_gemm", -1, -1, -1, -1},
};

std::string_view shape_argument(const Words& shape, int index) {
  return index >= 0 && static_cast<size_t>(index) < shape.size()
             ? plain_argument(shape[static_cast<size_t>(index)])
             : std::string_view{};
}

void explain_product(const ShapeGrammar& grammar, const Words& shape, NameBuilder& out) {
  out.stated(NameField::op, "GEMM", grammar.function);
  out.convention(NameField::arch, "sm90", grammar.function);
  out.convention(NameField::accumulator, "f32", grammar.function);
  const std::string type = shape.empty() ? "" : element_type(shape[0]);
  if (type.empty()) return;
  for (const NameField field : {NameField::a, NameField::b, NameField::d}) out.stated(field, type, shape[0]);
  const std::string_view gated = shape_argument(shape, 1), rows = shape_argument(shape, grammar.rows),
                         columns = shape_argument(shape, grammar.columns),
                         split = shape_argument(shape, grammar.split),
                         pong = shape_argument(shape, grammar.ping_pong);
  if (grammar.function == "mlp_gemm")
    out.stated(NameField::runs, "gated_mlp", grammar.function);
  else if (gated == "true" || gated == "false")
    out.stated(NameField::runs, gated == "true" ? "gated_gemm" : "gemm", gated);
  else if (grammar.function == "row_mma_gemm")
    out.stated(NameField::runs, "gemm", grammar.function);
  if (is_number(rows) && is_number(columns)) {
    // Stages of 64 of K: rows of 128 bytes, as the copy engine swizzles them.
    out.stated(NameField::tile, fmt::format("{}x{}x64", rows, columns), fmt::format("{}, {}", rows, columns));
    if (gated == "true") out.feature("gate and up side by side in a tile", Certainty::stated, gated);
  }
  if (is_number(split)) out.stated(NameField::split_k, split == "1" ? "off" : "on", split);
  if (pong == "true" || pong == "false")
    out.stated(NameField::schedule, pong == "true" ? "pingpong" : "cooperative", pong);
  if (grammar.function == "swap_gemm" && (columns == "128" || columns == "256"))
    out.stated(NameField::schedule, columns == "128" ? "pingpong" : "cooperative", columns);
}

// elementwise_rows<functor, out, in, inputs, width> and elementwise_strided<functor, out, in, inputs>
void explain_our_elementwise(const CppName& cpp, NameBuilder& out) {
  const std::string functor(cpp.arguments.empty() ? "" : parse_cpp(cpp.arguments[0]).function);
  out.stated(NameField::op,
             functor == "Convert" ? "copy"
             : functor == "Fill"  ? "fill"
                                  : "pointwise",
             functor.empty() ? cpp.function : std::string_view(functor));
  if (cpp.arguments.size() < 3) return;
  out.stated(NameField::runs, functor, cpp.arguments[0]);
  out.stated(NameField::d, element_type(cpp.arguments[1]), cpp.arguments[1]);
  if (functor != "Fill") out.stated(NameField::a, element_type(cpp.arguments[2]), cpp.arguments[2]);
  if (cpp.arguments.size() > 3 && plain_argument(cpp.arguments[3]) == "2")
    out.stated(NameField::b, element_type(cpp.arguments[2]), cpp.arguments[2]);
  if (cpp.arguments.size() > 4)
    out.stated(NameField::vector_width, std::string(plain_argument(cpp.arguments[4])), cpp.arguments[4]);
}

}  // namespace

bool explain_ours_cpp(const CppName& cpp, NameBuilder& out) {
  if (!cpp.scope.starts_with(kOurScope)) return false;
  out.family("Epilogue", "epilogue-cuda", kOurScope);
  out.stated(NameField::function, std::string(cpp.function), cpp.function);
  const auto* grammar = std::ranges::find(kProductShapes, cpp.function, &ShapeGrammar::function);
  if (grammar != std::end(kProductShapes)) {
    explain_product(*grammar, cpp.arguments.empty() ? Words{} : template_arguments(cpp.arguments[0]), out);
  } else if (cpp.function.starts_with("elementwise_")) {
    explain_our_elementwise(cpp, out);
  } else if (cpp.function == "gemm_reference") {
    out.stated(NameField::op, "GEMM", cpp.function);
    if (cpp.arguments.empty()) return true;
    for (const NameField field : {NameField::a, NameField::b, NameField::d})
      out.stated(field, element_type(cpp.arguments[0]), cpp.arguments[0]);
  } else if (cpp.function == "transpose_tiles") {
    out.stated(NameField::op, "copy", cpp.function);  // of words of a size, whatever they mean
  }
  return true;
}

}  // namespace epilogue::trace
