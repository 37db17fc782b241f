// Our own kernels on the GPU, C++ templates of the namespace epilogue::cuda (src/backend/cuda/kernels).
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "trace/kernel_name_parse.h"

namespace epilogue::trace {
namespace {

constexpr std::string_view kScope = "epilogue::cuda::";
constexpr int kDepth = 64;  // of K in a stage, in every product's kernel

// Which of a shape's template arguments, behind the dtype and whether it is gated, says what; -1: none.
struct ShapeGrammar {
  std::string_view function;
  int rows, columns, split, ping_pong;
};
constexpr ShapeGrammar kShapes[] = {
    {"tile_gemm", 2, 3, -1, 4},      {"swap_gemm", 2, 3, -1, -1},      {"skinny_gemm", 3, 2, 4, -1},
    {"row_dot_gemm", 2, -1, -1, -1}, {"row_mma_gemm", -1, -1, -1, -1},
};

std::string_view argument(const Words& shape, int index) {
  return index >= 0 && static_cast<size_t>(index) < shape.size()
             ? plain_argument(shape[static_cast<size_t>(index)])
             : std::string_view{};
}

// XShape<dtype, gated, ...>
void explain_product(const ShapeGrammar& grammar, const Words& shape, NameBuilder& out) {
  out.stated(NameField::op, "GEMM", grammar.function);
  out.stated(NameField::arch, "sm90", grammar.function);
  if (shape.size() < 2) return;
  const std::string type = element_type(shape[0]);
  for (const NameField field : {NameField::a, NameField::b, NameField::d}) out.stated(field, type, shape[0]);
  out.stated(NameField::accumulator, "f32", grammar.function);
  const bool gated = plain_argument(shape[1]) == "true";
  out.stated(NameField::runs, gated ? "gated_gemm" : "gemm", shape[1]);
  const std::string_view rows = argument(shape, grammar.rows), columns = argument(shape, grammar.columns);
  if (is_number(rows) && is_number(columns))
    out.stated(NameField::tile, fmt::format("{}x{}x{}", rows, columns, kDepth),
               fmt::format("{}, {}", rows, columns));
  if (gated) out.feature("gate and up side by side in a tile", Certainty::stated, shape[1]);
  if (const std::string_view split = argument(shape, grammar.split); !split.empty())
    out.stated(NameField::split_k, split == "1" ? "off" : "on", split);
  if (const std::string_view pong = argument(shape, grammar.ping_pong); !pong.empty())
    out.stated(NameField::schedule, pong == "true" ? "pingpong" : "cooperative", pong);
  if (grammar.function == "swap_gemm" && is_number(columns))
    out.stated(NameField::schedule, columns == "128" ? "pingpong" : "cooperative", columns);
}

// elementwise_rows<functor, out, in, inputs, width> and elementwise_strided<functor, out, in, inputs>
void explain_elementwise(const CppName& cpp, NameBuilder& out) {
  out.stated(NameField::op, "pointwise", cpp.function);
  if (cpp.arguments.size() < 3) return;
  out.stated(NameField::runs, std::string(parse_cpp(cpp.arguments[0]).function), cpp.arguments[0]);
  out.stated(NameField::d, element_type(cpp.arguments[1]), cpp.arguments[1]);
  out.stated(NameField::a, element_type(cpp.arguments[2]), cpp.arguments[2]);
  if (cpp.arguments.size() > 4)
    out.stated(NameField::vector_width, std::string(plain_argument(cpp.arguments[4])), cpp.arguments[4]);
}

}  // namespace

bool explain_ours_cpp(const CppName& cpp, NameBuilder& out) {
  if (!cpp.scope.starts_with(kScope)) return false;
  out.family("Epilogue", "epilogue-cuda", kScope);
  out.stated(NameField::function, std::string(cpp.function), cpp.function);
  const auto* grammar = std::ranges::find(kShapes, cpp.function, &ShapeGrammar::function);
  if (grammar != std::end(kShapes))
    explain_product(*grammar, cpp.arguments.empty() ? Words{} : template_arguments(cpp.arguments[0]), out);
  else if (cpp.function.starts_with("elementwise_"))
    explain_elementwise(cpp, out);
  else if (cpp.function == "gemm_reference")
    out.stated(NameField::op, "GEMM", cpp.function);
  else if (cpp.function == "transpose_tiles")
    out.stated(NameField::op, "copy", cpp.function);
  if ((cpp.function == "gemm_reference" || cpp.function == "transpose_tiles") && !cpp.arguments.empty())
    for (const NameField field : {NameField::a, NameField::d})
      out.stated(field, element_type(cpp.arguments[0]), cpp.arguments[0]);
  return true;
}

}  // namespace epilogue::trace
