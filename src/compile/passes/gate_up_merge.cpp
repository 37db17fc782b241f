#include "compile/passes/gate_up_merge.h"

#include <algorithm>

#include "backend/backend.h"
#include "compile/passes/edit.h"

namespace epilogue::compiler {
namespace {

using graph::Graph;
using graph::Node;
using graph::Value;
using graph::ValueId;
using graph::ValueKind;

// The constant [n, k] whose transpose a product reads as its second factor; kNoValue when that is something
// else.
ValueId weight_of(const Graph& graph, const Node& product) {
  const Value& factor = graph.value(product.inputs.back());
  const Value& weight = graph.value(factor.base);
  const bool fits = weight.kind == ValueKind::constant && weight.parts.empty() &&
                    weight.constant.is_parameter() && weight.sizes().size() == 2 &&
                    is_contiguous(weight.layout.sizes, weight.layout.strides) &&
                    graph::same_layout(factor.layout, view_t(weight.layout));
  return fits ? factor.base : graph::kNoValue;
}

bool is_constant_row(const Graph& graph, ValueId id, int64_t columns) {
  const Value& value = graph.value(id);
  return value.kind == ValueKind::constant && value.parts.empty() && value.sizes() == Dims{columns} &&
         is_contiguous(value.layout.sizes, value.layout.strides);
}

bool read_by_pointwise_only(const Graph& graph, ValueId base) {
  const auto of_base = [&](ValueId id) { return graph.value(id).base == base; };
  return std::ranges::none_of(graph.outputs, of_base) &&
         std::ranges::all_of(graph.nodes, [&](const Node& node) {
           return is_view(node) || is_pointwise(node) || std::ranges::none_of(node.inputs, of_base);
         });
}

bool mergeable(const Graph& graph, const Node& a, const Node& b) {
  if (a.op != b.op || (a.op != Op::mm && a.op != Op::addmm) || a.program || b.program) return false;
  if (a.inputs[a.inputs.size() - 2] != b.inputs[b.inputs.size() - 2]) return false;
  const ValueId wa = weight_of(graph, a), wb = weight_of(graph, b);
  if (wa == graph::kNoValue || wb == graph::kNoValue || wa == wb) return false;
  if (a.op == Op::addmm && (!is_constant_row(graph, a.inputs[0], graph.value(wa).sizes()[0]) ||
                            !is_constant_row(graph, b.inputs[0], graph.value(wb).sizes()[0])))
    return false;
  return read_by_pointwise_only(graph, a.outputs[0]) && read_by_pointwise_only(graph, b.outputs[0]);
}

ValueId stack(Graph& graph, ValueId first, ValueId second) {
  Value stacked = graph.value(first);
  stacked.parts = {stacked.constant, graph.value(second).constant};
  stacked.constant = {};
  stacked.base = graph::kNoValue;
  stacked.layout.sizes[0] += graph.value(second).sizes()[0];
  stacked.layout = {stacked.layout.sizes, contiguous_strides(stacked.layout.sizes), 0};
  return graph.add_value(std::move(stacked));
}

Node slice_of(ValueId product, int64_t begin, int64_t end, ValueId output) {
  Node node{.op = Op::slice, .inputs = {product}, .outputs = {output}};
  const int64_t numbers[] = {1, begin, end, 1};
  std::ranges::copy(numbers, node.attrs.numbers);
  return node;
}

bool is_activated(const Graph& graph, ValueId base) {
  return std::ranges::any_of(graph.nodes, [&](const Node& node) {
    return is_pointwise(node) && node.op != Op::add && node.op != Op::mul &&
           graph.value(node.inputs[0]).base == base;
  });
}

}  // namespace

std::vector<GatePair> find_gate_pairs(const Graph& graph) {
  std::vector<GatePair> pairs;
  std::vector<bool> taken(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    for (size_t j = i + 1; j < graph.nodes.size() && !taken[i]; ++j) {
      if (taken[j] || !mergeable(graph, graph.nodes[i], graph.nodes[j])) continue;
      GatePair pair{graph.nodes[i].outputs[0], graph.nodes[j].outputs[0]};
      if (is_activated(graph, pair.second) && !is_activated(graph, pair.first))
        std::swap(pair.first, pair.second);
      pairs.push_back(pair);
      taken[i] = taken[j] = true;
    }
  return pairs;
}

void merge_pair(Graph& graph, const GatePair& pair) {
  const std::vector<int> made_by = producers(graph);
  const auto at = static_cast<size_t>(made_by[static_cast<size_t>(pair.first)]);
  const auto other = static_cast<size_t>(made_by[static_cast<size_t>(pair.second)]);
  const Node a = graph.nodes[at], b = graph.nodes[other];
  const ValueId weight = stack(graph, weight_of(graph, a), weight_of(graph, b));
  Value transposed = graph.value(weight);
  transposed.kind = ValueKind::result;
  transposed.parts.clear();
  transposed.base = weight;
  transposed.layout = view_t(transposed.layout);
  const ValueId factor = graph.add_value(std::move(transposed));
  Node product{.op = a.op, .inputs = {a.inputs[a.inputs.size() - 2], factor}};
  if (a.op == Op::addmm)
    product.inputs.insert(product.inputs.begin(), stack(graph, a.inputs[0], b.inputs[0]));
  Value made = graph.value(pair.first);
  made.base = graph::kNoValue;
  const int64_t left = made.layout.sizes[1], right = graph.value(pair.second).sizes()[1];
  made.layout.sizes[1] = left + right;
  made.layout.strides = contiguous_strides(made.layout.sizes);
  const ValueId both = graph.add_value(std::move(made));
  product.outputs = {both};
  graph.nodes[other] = slice_of(both, left, left + right, pair.second);
  graph.nodes[at] = slice_of(both, 0, left, pair.first);
  const Node before[] = {Node{.op = Op::t, .inputs = {weight}, .outputs = {factor}}, product};
  graph.nodes.insert(graph.nodes.begin() + static_cast<std::ptrdiff_t>(std::min(at, other)),
                     std::begin(before), std::end(before));
  infer_views(graph);
  remove_unread(graph);
}

// Two products that read the same rows become one over both weights, which are stacked once and kept.
void gate_up_merge(Graph& graph, PassContext& context) {
  for (const Node& node : graph.nodes)
    if (node.op == Op::gated_mlp || node.op == Op::gated_linear)
      context.notes.push_back(
          fmt::format("%{} has its two products in one kernel: gated_fusion took them", node.outputs[0]));
  for (const GatePair& pair : find_gate_pairs(graph)) {
    Backend& backend = backend_for(graph.value(pair.first).device);
    const char* reason = context.enabled("gate_up_merge") ? nullptr : backend.refuse_merged_products();
    if (reason) {
      context.notes.push_back(
          fmt::format("%{} and %{} stay two products: {}", pair.first, pair.second, reason));
      continue;
    }
    merge_pair(graph, pair);
    context.notes.push_back(
        fmt::format("%{} and %{} are one product over stacked weights", pair.first, pair.second));
  }
}

}  // namespace epilogue::compiler
