#include "compile/passes/edit.h"

#include <algorithm>

#include "op/infer.h"

namespace epilogue::compiler {

using graph::Graph;
using graph::Node;
using graph::ValueId;

size_t remove_unread(Graph& graph) {
  std::vector<int> reads = graph.count_reads();
  std::vector<Node> kept;
  const size_t before = graph.nodes.size();
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    Node& node = graph.nodes[i];
    const bool read =
        std::ranges::any_of(node.outputs, [&](ValueId id) { return reads[static_cast<size_t>(id)] > 0; });
    if (read) {
      kept.push_back(std::move(node));
      continue;
    }
    for (const ValueId input : node.inputs) --reads[static_cast<size_t>(input)];
  }
  std::ranges::reverse(kept);
  graph.nodes = std::move(kept);
  return before - graph.nodes.size();
}

void infer_views(Graph& graph) {
  for (const Node& node : graph.nodes) {
    if (!is_view(node)) continue;
    const graph::Value& of = graph.value(node.inputs[0]);
    const Tensor input = stand_in(of);
    graph::Value& value = graph.value(node.outputs[0]);
    value.layout = infer(node.op, std::span(&input, 1), node.attrs).layout;
    value.base = of.base;
  }
}

std::vector<int> producers(const Graph& graph) {
  std::vector<int> made_by(graph.values.size(), -1);
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    for (const ValueId output : graph.nodes[i].outputs)
      made_by[static_cast<size_t>(output)] = static_cast<int>(i);
  return made_by;
}

void sort_nodes(Graph& graph) {
  const std::vector<int> made_by = producers(graph);
  std::vector<Node> sorted;
  std::vector<char> placed(graph.nodes.size());
  // Depth first without recursion: a node is placed when all it reads is.
  for (size_t start = 0; start < graph.nodes.size(); ++start) {
    std::vector<size_t> stack{start};
    while (!stack.empty()) {
      const size_t at = stack.back();
      if (placed[at]) {
        stack.pop_back();
        continue;
      }
      const size_t depth = stack.size();
      for (const ValueId input : graph.nodes[at].inputs) {
        const int from = made_by[static_cast<size_t>(input)];
        if (from >= 0 && !placed[static_cast<size_t>(from)]) stack.push_back(static_cast<size_t>(from));
      }
      if (stack.size() > depth) continue;
      placed[at] = true;
      sorted.push_back(graph.nodes[at]);
      stack.pop_back();
    }
  }
  graph.nodes = std::move(sorted);
}

std::shared_ptr<PointwiseProgram> as_program(const Graph& graph, const Node& node) {
  if (node.op == Op::fused) return std::make_shared<PointwiseProgram>(*node.program);
  const auto narrow = [](DType dtype) { return program_compute_type(dtype) == DType::f32; };
  const DType out = graph.value(node.outputs[0]).dtype,
              in = graph.value(node.inputs.empty() ? node.outputs[0] : node.inputs[0]).dtype;
  const bool rounds = node.op == Op::to && narrow(in) && narrow(out) &&
                      graph.value(node.inputs[0]).device == graph.value(node.outputs[0]).device;
  if (!is_pointwise(node) && !rounds) return nullptr;
  auto program = std::make_shared<PointwiseProgram>();
  program->compute = program_compute_type(out);
  for (size_t i = 0; i < node.inputs.size(); ++i)
    program->inputs.push_back({graph.value(node.inputs[i]).dtype, static_cast<int16_t>(i), 0});
  program->steps.push_back({.op = node.op,
                            .approximate = node.attrs.approximate,
                            .dtype = node.op == Op::to ? out : DType::f32,
                            .a = 0,
                            .b = static_cast<int16_t>(node.inputs.size() == 2 ? 1 : -1)});
  program->outputs.push_back({static_cast<int16_t>(node.inputs.size()), out});
  return program;
}

bool broadcast_as_matrix(const Layout& layout, const Dims& sizes, int64_t rows, int64_t columns,
                         Layout& out) {
  const Layout wide = view_expand(layout, sizes);
  out = {{rows, columns}, {}, layout.offset};
  return view_strides(wide, out.sizes, out.strides);
}

}  // namespace epilogue::compiler
