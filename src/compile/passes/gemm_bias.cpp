#include "compile/passes/edit.h"

namespace epilogue::compiler {
namespace {

using graph::Graph;
using graph::Node;
using graph::Value;
using graph::ValueId;

// The product behind a value, seen through views that keep all of its elements in order.
ValueId product_behind(const Graph& graph, const std::vector<int>& made_by, ValueId id) {
  const Value& value = graph.value(id);
  const int by = made_by[static_cast<size_t>(value.base)];
  if (by < 0 || graph.nodes[static_cast<size_t>(by)].op != Op::mm) return graph::kNoValue;
  const Value& base = graph.value(value.base);
  const bool whole = is_contiguous(value.layout.sizes, value.layout.strides) &&
                     numel_of(value.sizes()) == numel_of(base.sizes()) && !value.sizes().empty() &&
                     value.sizes().back() == base.sizes().back();
  return whole ? value.base : graph::kNoValue;
}

bool read_once(const Graph& graph, ValueId product, const std::vector<int>& reads) {
  int outside = 0;
  for (size_t v = 0; v < graph.values.size(); ++v) {
    if (graph.values[v].base != product) continue;
    int views = 0;
    for (const Node& node : graph.nodes)
      if (is_view(node) && node.inputs[0] == static_cast<ValueId>(v)) ++views;
    outside += reads[v] - views;
  }
  return outside == 1;
}

// add(mm(a, b), bias) is addmm(bias, a, b), with the bias added in the product's epilogue.
bool take_bias(Graph& graph, size_t at, int side) {
  const Node add = graph.nodes[at];
  const std::vector<int> made_by = producers(graph);
  const ValueId product = product_behind(graph, made_by, add.inputs[static_cast<size_t>(side)]);
  if (product == graph::kNoValue || !read_once(graph, product, graph.count_reads())) return false;
  const ValueId bias = add.inputs[static_cast<size_t>(1 - side)];
  const Value& sum = graph.value(add.outputs[0]);
  if (graph.value(bias).sizes().size() != 1 || graph.value(bias).base == product ||
      graph.value(bias).sizes()[0] != graph.value(product).sizes()[1] ||
      numel_of(sum.sizes()) != numel_of(graph.value(product).sizes()))
    return false;
  // Where the bias is made later than the product, the product moves behind it.
  Node with_bias = graph.nodes[static_cast<size_t>(made_by[static_cast<size_t>(product)])];
  with_bias.op = Op::addmm;
  with_bias.inputs.insert(with_bias.inputs.begin(), bias);
  Value made = graph.value(product);
  made.base = graph::kNoValue;
  const Dims sizes = sum.sizes();
  const ValueId result = graph.add_value(std::move(made));
  with_bias.outputs = {result};
  graph.nodes[at] = std::move(with_bias);
  const Layout shape{sizes, contiguous_strides(sizes), 0};
  graph.replace_reads(add.outputs[0], add_view(graph, result, shape, at + 1));
  return true;
}

}  // namespace

void gemm_bias(Graph& graph, PassContext& context) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].op != Op::add) continue;
    const ValueId sum = graph.nodes[i].outputs[0];
    if (take_bias(graph, i, 0) || take_bias(graph, i, 1))
      context.notes.push_back(
          fmt::format("the addition that made %{} went into the product as its bias", sum));
  }
  remove_unread(graph);
  infer_views(graph);
}

}  // namespace epilogue::compiler
