#include "compile/passes/edit.h"

namespace epilogue::compiler {
namespace {

using graph::Graph;
using graph::Value;

bool is_transpose_of(const Value& value, const Value& base) {
  return base.sizes().size() == 2 && graph::same_layout(value.layout, view_t(base.layout));
}

// The plainest view that gives `value` from its base.
void view_base(const Value& value, const Value& base, graph::Node& node) {
  node.attrs = {};
  node.inputs = {value.base};
  const bool plain = is_contiguous(base.layout.sizes, base.layout.strides) &&
                     is_contiguous(value.layout.sizes, value.layout.strides) &&
                     value.layout.offset == base.layout.offset &&
                     numel_of(value.sizes()) == numel_of(base.sizes());
  if (is_transpose_of(value, base)) {
    node.op = Op::t;
  } else if (plain) {
    node.op = Op::view;
    node.attrs.sizes = value.sizes();
  } else {
    node.op = Op::as_strided;
    node.attrs.sizes = value.layout.sizes;
    node.attrs.strides = value.layout.strides;
    node.attrs.numbers[0] = value.layout.offset;
  }
}

}  // namespace

int fold_views(Graph& graph) {
  infer_views(graph);
  int folded = 0;
  for (graph::Node& node : graph.nodes) {
    if (!is_view(node)) continue;
    const Value& value = graph.value(node.outputs[0]);
    const Value& base = graph.value(value.base);
    if (graph::same_layout(value.layout, base.layout)) {
      graph.replace_reads(node.outputs[0], value.base);
      ++folded;
    } else if (node.inputs[0] != value.base && numel_of(value.sizes()) > 0) {
      view_base(value, base, node);
      ++folded;
    }
  }
  remove_unread(graph);
  infer_views(graph);
  return folded;
}

// A view of a view is a view of what holds the data, and one that changes nothing is none.
void view_folding(Graph& graph, PassContext& context) {
  if (const int folded = fold_views(graph)) context.notes.push_back(fmt::format("folded {} views", folded));
}

}  // namespace epilogue::compiler
