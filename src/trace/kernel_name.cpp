#include "trace/kernel_name.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/format.h"
#include "trace/demangle.h"
#include "trace/kernel_name_parse.h"

namespace epilogue::trace {
namespace {

constexpr size_t kMaxName = 32 << 10;
constexpr size_t kMaxShort = 96;

constexpr const char* kFieldNames[] = {
    "vendor",   "family",  "op",        "runs",         "function", "a",       "b",           "accumulator",
    "c",        "d",       "layout",    "tile",         "stages",   "cluster", "instruction", "schedule",
    "epilogue", "split_k", "alignment", "vector_width", "arch",
};
static_assert(std::size(kFieldNames) == kNameFields);

bool explain_any(std::string_view name, NameBuilder& out) {
  if (explain_copy(name, out) || explain_nccl(name, out) || explain_triton(name, out)) return true;
  const CppName cpp = parse_cpp(name);
  return explain_attention(name, cpp, out) || explain_cutlass(name, out) || explain_cublas(name, out) ||
         explain_cudnn(name, cpp, out) || explain_cutlass_cpp(cpp, out) || explain_aten(cpp, out) ||
         explain_cublas_cpp(cpp, out) || explain_ours_cpp(cpp, out) || explain_ours(name, out);
}

std::string cut(const std::string& text) {
  if (text.size() <= kMaxShort) return text;
  return std::string(utf8_prefix(text, kMaxShort - 3)) + "...";
}

std::string join_known(std::initializer_list<std::string> parts) {
  std::string joined;
  for (const std::string& part : parts)
    if (!part.empty()) append_part(joined, part, " ");
  return joined;
}

// By op; for any other what it computes and its types.
struct WantedFields {
  std::string_view op;
  std::vector<NameField> fields;
};
const std::vector<NameField>& wanted_fields(const std::string& of_op) {
  using enum NameField;
  static const WantedFields kWanted[] = {
      {"GEMM", {a, b, d, layout, tile, arch}},
      {"sparse GEMM", {a, b, d, layout, tile, arch}},
      {"GEMV", {a, b, d, layout}},
      {"attention", {a, tile, arch}},
      {"collective", {runs, a}},
      {"copy", {a, d}},
      {"fill", {d}},
      {"memset", {}},
      {"", {op}},
  };
  static const std::vector<NameField> kOther{runs, a, d};
  const auto* at = std::ranges::find(kWanted, of_op, &WantedFields::op);
  return at == std::end(kWanted) ? kOther : at->fields;
}

}  // namespace

const char* certainty_name(Certainty certainty) {
  switch (certainty) {
    case Certainty::stated:
      return "stated";
    case Certainty::convention:
      return "convention";
    case Certainty::unknown:
      break;
  }
  return "unknown";
}

const char* name_field_name(NameField field) { return kFieldNames[static_cast<size_t>(field)]; }

KernelName explain_kernel(std::string_view name) {
  KernelName kernel;
  kernel.name = name;
  kernel.demangled = demangle(name.substr(0, kMaxName)).text;
  const std::string text(kernel.demangled.empty() ? name.substr(0, kMaxName)
                                                  : std::string_view(kernel.demangled));
  NameBuilder builder(kernel);
  if (!explain_any(text, builder)) {
    kernel.fields = {};  // what a reader set before it gave up
    kernel.features.clear();
    builder.set(NameField::family, "unknown", Certainty::unknown, "");
  }
  return kernel;
}

std::vector<NameField> missing_fields(const KernelName& kernel) {
  std::vector<NameField> missing;
  if (kernel.value(NameField::family) == "memcpy") return missing;  // moves bytes, whatever they mean
  for (const NameField field : wanted_fields(kernel.value(NameField::op))) {
    const bool said_by_function = field == NameField::runs && !kernel.value(NameField::function).empty();
    if (kernel.value(field).empty() && !said_by_function) missing.push_back(field);
  }
  return missing;
}

std::string short_name(std::string_view name) { return short_name(explain_kernel(name)); }

std::string short_name(const KernelName& kernel) {
  const auto& value = [&](NameField field) -> const std::string& { return kernel.value(field); };
  const std::string& family = value(NameField::family);
  const std::string& op = value(NameField::op);
  if (family == "aten" && !value(NameField::function).empty()) {
    std::string_view function = value(NameField::function);
    if (function.ends_with("_kernel")) function.remove_suffix(7);
    const std::string& runs = value(NameField::runs);
    return cut(join_known({std::string(function), runs == value(NameField::function) ? "" : runs}));
  }
  if (family == "nccl") return cut(join_known({"nccl", value(NameField::runs), value(NameField::a)}));
  const bool ours = family.starts_with("epilogue");
  if (ours && !value(NameField::function).empty()) {
    const std::string& runs = value(NameField::runs);
    return cut(join_known({value(NameField::function), op == "pointwise" || runs == "gated_gemm" ? runs : "",
                           value(NameField::tile), value(NameField::a)}));
  }
  if (!ours && !value(NameField::tile).empty() &&
      (op == "GEMM" || op == "sparse GEMM" || op == "attention")) {
    const std::string what = op == "GEMM"        ? "gemm"
                             : op == "attention" ? "attention " + value(NameField::runs)
                                                 : "spgemm";
    const bool split = value(NameField::split_k) == "on" || value(NameField::split_k) == "stream-K";
    const bool bias = contains(value(NameField::epilogue), "bias");
    return cut(join_known({what, value(NameField::tile), value(NameField::a), value(NameField::layout),
                           split ? "splitK" : "", bias ? "bias" : ""}));
  }
  const std::string_view text = kernel.demangled.empty() ? std::string_view(kernel.name) : kernel.demangled;
  const CppName cpp = parse_cpp(text.substr(0, kMaxName));
  if (cpp.function.empty() || family == "memcpy" || family == "memset" || cpp.arguments.empty()) {
    const size_t parameters = family.starts_with("mem") ? text.npos : text.find('(', 1);
    return cut(std::string(text.substr(0, std::min(parameters, kMaxShort + 1))));
  }
  const std::string_view scope = cpp.scope.size() + cpp.function.size() > kMaxShort ? "" : cpp.scope;
  return cut(fmt::format("{}{}", scope, cpp.function.substr(0, kMaxShort + 1)));
}

}  // namespace epilogue::trace
