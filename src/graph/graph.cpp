#include "graph/graph.h"

#include <algorithm>

#include "base/check.h"
#include "op/dispatch.h"
#include "tensor/storage.h"

namespace epilogue::graph {

ValueId Graph::add_value(Value value) {
  const auto id = static_cast<ValueId>(values.size());
  if (value.base == kNoValue) value.base = id;
  values.push_back(std::move(value));
  return id;
}

const Node* Graph::producer(ValueId id) const {
  for (const Node& node : nodes)
    if (std::ranges::find(node.outputs, id) != node.outputs.end()) return &node;
  return nullptr;
}

std::vector<int> Graph::count_reads() const {
  std::vector<int> reads(values.size());
  for (const Node& node : nodes)
    for (const ValueId input : node.inputs) ++reads[static_cast<size_t>(input)];
  for (const ValueId output : outputs) ++reads[static_cast<size_t>(output)];
  return reads;
}

void Graph::replace_reads(ValueId from, ValueId to) {
  for (Node& node : nodes) std::ranges::replace(node.inputs, from, to);
  std::ranges::replace(outputs, from, to);
}

bool is_view(const Node& node) { return op_row(node.op).op_class == OpClass::view; }
bool is_pointwise(const Node& node) {
  return op_row(node.op).op_class == OpClass::pointwise && !node.attrs.implementation;
}
bool is_product(const Node& node) { return op_row(node.op).op_class == OpClass::gemm; }
bool is_gated(const Node& node) { return op_row(node.op).op_class == OpClass::gated; }
bool moves_to_device(const Graph& graph, const Node& node) {
  return node.op == Op::to && graph.value(node.inputs[0]).device != graph.value(node.outputs[0]).device;
}
int own_inputs(const Node& node) { return op_row(node.op).fewest_inputs; }

bool same_layout(const Layout& a, const Layout& b) {
  if (a.sizes != b.sizes) return false;
  for (int d = 0; d < a.sizes.size(); ++d) {
    if (a.sizes[d] == 0) return true;
    if (a.sizes[d] != 1 && a.strides[d] != b.strides[d]) return false;
  }
  return a.offset == b.offset;
}

ValueId add_view(Graph& graph, ValueId of, const Layout& layout, size_t at) {
  const Value seen = graph.value(of);
  if (same_layout(seen.layout, layout)) return of;
  Node node{.op = Op::as_strided, .inputs = {of}};
  const bool plain = is_contiguous(seen.layout.sizes, seen.layout.strides) &&
                     is_contiguous(layout.sizes, layout.strides) && seen.layout.offset == layout.offset &&
                     numel_of(seen.layout.sizes) == numel_of(layout.sizes);
  if (plain) {
    node.op = Op::view;
    node.attrs.sizes = layout.sizes;
  } else {
    node.attrs.sizes = layout.sizes;
    node.attrs.strides = layout.strides;
    node.attrs.numbers[0] = layout.offset;
  }
  const ValueId id = graph.add_value({.kind = ValueKind::result,
                                      .dtype = seen.dtype,
                                      .device = seen.device,
                                      .layout = layout,
                                      .base = seen.base});
  if (plain) graph.value(id).layout.strides = contiguous_strides(layout.sizes);
  node.outputs = {id};
  graph.nodes.insert(graph.nodes.begin() + static_cast<std::ptrdiff_t>(at), std::move(node));
  return id;
}

std::vector<Tensor> run_eagerly(const Graph& graph, std::span<const Tensor> inputs) {
  std::vector<Tensor> tensors(graph.values.size());
  for (size_t i = 0; i < graph.inputs.size(); ++i) tensors[static_cast<size_t>(graph.inputs[i])] = inputs[i];
  for (size_t v = 0; v < graph.values.size(); ++v)
    if (graph.values[v].kind == ValueKind::constant) tensors[v] = graph.values[v].constant;
  std::vector<int> reads = graph.count_reads();
  for (const Node& node : graph.nodes) {
    std::vector<Tensor> arguments;
    for (const ValueId input : node.inputs) {
      arguments.push_back(tensors[static_cast<size_t>(input)]);
      if (--reads[static_cast<size_t>(input)] == 0) tensors[static_cast<size_t>(input)] = {};
    }
    const auto out = static_cast<size_t>(node.outputs[0]);
    const Value& value = graph.values[out];
    tensors[out] = node.op == Op::fill_ ? full(value.sizes(), node.attrs.value, {value.dtype, value.device})
                                        : dispatch(node.op, arguments, node.attrs);
  }
  std::vector<Tensor> results;
  for (const ValueId output : graph.outputs) results.push_back(tensors[static_cast<size_t>(output)]);
  return results;
}

}  // namespace epilogue::graph
