#include <algorithm>

#include <fmt/format.h>

#include "backend/backend.h"
#include "graph/graph.h"

namespace epilogue::graph {
namespace {

// "s0*s1" or "4*s0" for what the symbols' primes divide, the number itself otherwise.
std::string size_text(const Graph& graph, int64_t size) {
  if (size <= 0) return std::to_string(size);
  std::string names;
  for (const auto& [name, prime] : graph.symbols)
    for (; size % prime == 0; size /= prime) names += (names.empty() ? "" : "*") + name;
  if (names.empty()) return std::to_string(size);
  return size == 1 ? names : fmt::format("{}*{}", size, names);
}

std::string sizes_text(const Graph& graph, const Dims& sizes) {
  std::string text = "[";
  for (int d = 0; d < sizes.size(); ++d) text += (d ? ", " : "") + size_text(graph, sizes[d]);
  return text + "]";
}

std::string type_text(const Graph& graph, const Value& value) {
  return dtype_name(value.dtype) + sizes_text(graph, value.sizes());
}

std::string op_attributes(const Graph& graph, const Node& node) {
  const Attrs& a = node.attrs;
  const auto number = [&](int i) { return size_text(graph, a.numbers[i]); };
  switch (node.op) {
    case Op::gelu:
    case Op::gelu_mul:
      return a.approximate == GeluApproximate::tanh ? ", tanh" : "";
    case Op::gated_linear:
    case Op::gated_mlp:
      return fmt::format(", {}", act_name(a.act));
    case Op::to:
      return fmt::format(", {}", dtype_name(a.dtype));
    case Op::fill_:
      return fmt::format("{}", a.value);
    case Op::view:
    case Op::expand:
    case Op::permute:
      return fmt::format(", {}", sizes_text(graph, a.sizes));
    case Op::transpose:
    case Op::select:
      return fmt::format(", {}, {}", number(0), number(1));
    case Op::slice: {
      const std::string step = a.numbers[3] == 1 ? "" : fmt::format(":{}", number(3));
      return fmt::format(", {}, {}:{}{}", a.numbers[0], number(1), number(2), step);
    }
    case Op::squeeze:
    case Op::unsqueeze:
      return node.op == Op::squeeze && a.numbers[1] ? "" : fmt::format(", {}", a.numbers[0]);
    case Op::as_strided:
      return fmt::format(", {}, {}, {}", sizes_text(graph, a.sizes), sizes_text(graph, a.strides), number(0));
    default:
      return "";
  }
}

std::string attributes(const Graph& graph, const Node& node) {
  const AskedImplementation* asked = node.attrs.implementation;
  return op_attributes(graph, node) + (asked ? fmt::format(", by {}", asked->asked_for) : "");
}

std::string reads(const Node& node, bool program_part) {
  const size_t own =
      node.program && is_product(node) ? static_cast<size_t>(own_inputs(node)) : node.inputs.size();
  std::string text;
  for (size_t i = program_part ? own : 0; i < (program_part ? node.inputs.size() : own); ++i)
    text += fmt::format("{}%{}", text.empty() ? "" : ", ", node.inputs[i]);
  return text;
}

std::string line(const Graph& graph, const Node& node) {
  std::string text;
  for (const ValueId output : node.outputs)
    text += fmt::format("{}%{}: {}", text.empty() ? "" : ", ", output, type_text(graph, graph.value(output)));
  const std::string name = node.op == Op::fused ? node.program->name : op_row(node.op).name + 4;
  text += fmt::format(" = {}({}{})", name, reads(node, false), attributes(graph, node));
  if (node.program && is_product(node))
    text += fmt::format(" with {}({})", node.program->name, reads(node, true));
  if (node.program) text += fmt::format("  # {}", node.program->to_string());
  return text;
}

std::string constant_text(const Value& value) {
  if (!value.parts.empty()) return fmt::format("{} parameters, stacked", value.parts.size());
  return value.constant.is_parameter() ? "parameter" : "constant";
}

}  // namespace

std::string to_text(const Graph& graph) {
  std::string text = "graph(";
  for (const ValueId input : graph.inputs)
    text += fmt::format("{}%{}: {}", input == graph.inputs.front() ? "" : ", ", input,
                        type_text(graph, graph.value(input)));
  text += "):\n";
  const std::vector<int> read = graph.count_reads();
  for (size_t v = 0; v < graph.values.size(); ++v)
    if (graph.values[v].kind == ValueKind::constant && read[v] > 0)
      text += fmt::format("  %{}: {} = {}\n", v, type_text(graph, graph.values[v]),
                          constant_text(graph.values[v]));
  for (const Node& node : graph.nodes) text += "  " + line(graph, node) + "\n";
  text += "  return ";
  for (size_t i = 0; i < graph.outputs.size(); ++i)
    text += fmt::format("{}%{}", i ? ", " : "", graph.outputs[i]);
  return text + "\n";
}

std::string structure(const Graph& graph) {
  std::string text;
  text.reserve(graph.nodes.size() * 24);
  const auto append = [&text](int64_t number) {
    text += std::to_string(number);
    text += ' ';
  };
  for (const Value& value : graph.values) {
    append(static_cast<int64_t>(value.kind) * 64 + static_cast<int64_t>(value.dtype));
    append(value.layout.sizes.size() * 2 + is_contiguous(value.layout.sizes, value.layout.strides));
    append(static_cast<int64_t>(value.device.type) * 256 + value.device.index);
    append(value.base);
  }
  for (const Node& node : graph.nodes) {
    append(static_cast<int64_t>(node.op));
    append(static_cast<int64_t>(node.attrs.approximate));
    append(static_cast<int64_t>(node.attrs.act));
    if (node.attrs.implementation) text += node.attrs.implementation->name;
    for (const ValueId id : node.inputs) append(id);
    for (const ValueId id : node.outputs) append(id);
    text += ';';
  }
  for (const ValueId id : graph.outputs) append(id);
  return text;
}

}  // namespace epilogue::graph
