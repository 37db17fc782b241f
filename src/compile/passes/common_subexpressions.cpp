#include <algorithm>
#include <bit>

#include "compile/passes/edit.h"

namespace epilogue::compiler {
namespace {

// By their bits: 0.0 and -0.0 are equal and fill with different values.
bool same_number(double a, double b) { return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b); }

bool same_attrs(const Attrs& a, const Attrs& b) {
  return a.approximate == b.approximate && a.act == b.act && a.dtype == b.dtype && a.device == b.device &&
         same_number(a.value, b.value) && std::ranges::equal(a.numbers, b.numbers) && a.sizes == b.sizes &&
         a.strides == b.strides && a.implementation == b.implementation;
}

bool same(const graph::Graph& graph, const graph::Node& a, const graph::Node& b) {
  const graph::Value &of_a = graph.value(a.outputs[0]), &of_b = graph.value(b.outputs[0]);
  return a.op == b.op && a.inputs == b.inputs && a.outputs.size() == b.outputs.size() && !a.program &&
         !b.program && same_attrs(a.attrs, b.attrs) && of_a.dtype == of_b.dtype && of_a.device == of_b.device;
}

// Two outputs of the function stay two tensors.
bool is_output(const graph::Graph& graph, graph::ValueId id) {
  return std::ranges::any_of(graph.outputs, [&](graph::ValueId out) { return graph.value(out).base == id; });
}

}  // namespace

// Nodes have no side effects, so two that compute the same from the same are one.
void common_subexpressions(graph::Graph& graph, PassContext& context) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (!same(graph, graph.nodes[j], graph.nodes[i])) continue;
      const graph::ValueId first = graph.nodes[j].outputs[0], second = graph.nodes[i].outputs[0];
      if (!is_view(graph.nodes[i]) && is_output(graph, first) && is_output(graph, second)) break;
      graph.replace_reads(second, first);
      infer_views(graph);  // is_output() asks for the bases of views
      context.notes.push_back(fmt::format("%{} is %{}", second, first));
      break;
    }
  }
  remove_unread(graph);
}

}  // namespace epilogue::compiler
