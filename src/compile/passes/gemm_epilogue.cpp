#include <algorithm>

#include "backend/backend.h"
#include "compile/passes/edit.h"

namespace epilogue::compiler {
namespace {

using graph::Graph;
using graph::Node;
using graph::Value;
using graph::ValueId;

// Whether what a product makes is read by `reader` alone, directly or through views.
bool read_by_only(const Graph& graph, ValueId product, size_t reader) {
  const auto of_product = [&](ValueId id) { return graph.value(id).base == product; };
  if (std::ranges::any_of(graph.outputs, of_product)) return false;
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    if (i != reader && !is_view(graph.nodes[i]) && std::ranges::any_of(graph.nodes[i].inputs, of_product))
      return false;
  return true;
}

// Whether the node applies an activation to its input `i`: where two products meet, as in act(gate) * up,
// that one is the easier to continue from.
bool activates(const PointwiseProgram& program, size_t operand) {
  return std::ranges::any_of(program.steps, [&](const ProgramStep& step) {
    const auto a = static_cast<size_t>(step.a);
    return step.op != Op::add && step.op != Op::mul && step.op != Op::to && a < program.inputs.size() &&
           program.inputs[a].operand == static_cast<int16_t>(operand);
  });
}

// The product whose block the node at `at` could be computed on; kNoValue when there is none.
ValueId product_for(const Graph& graph, const std::vector<int>& made_by, size_t at) {
  const Node& reader = graph.nodes[at];
  const auto program = as_program(graph, reader);
  ValueId best = graph::kNoValue;
  for (size_t i = 0; i < reader.inputs.size(); ++i) {
    const int by = made_by[static_cast<size_t>(graph.value(reader.inputs[i]).base)];
    if (by < 0) continue;
    const Node& node = graph.nodes[static_cast<size_t>(by)];
    // Where there is nothing to multiply no kernel has an epilogue.
    const bool takes = (node.op == Op::mm || node.op == Op::addmm) && !node.program &&
                       graph.value(node.inputs.back()).sizes()[0] > 0;
    if (!takes || !read_by_only(graph, node.outputs[0], at)) continue;
    if (best == graph::kNoValue || activates(*program, i)) best = node.outputs[0];
  }
  return best;
}

// The node's program over the product's block and the operands as matrices. Null with the reason in `why`.
std::shared_ptr<PointwiseProgram> epilogue_program(const Graph& graph, const Node& node, ValueId product,
                                                   std::vector<Layout>& operands, std::vector<ValueId>& of,
                                                   std::string& why) {
  const Value& made = graph.value(product);
  const Dims& sizes = graph.value(node.outputs[0]).sizes();
  const int64_t rows = made.sizes()[0];
  const int64_t columns = rows > 0 ? numel_of(sizes) / rows : 0;
  if (columns == 0 || columns * rows != numel_of(sizes) || sizes.empty() || sizes.back() != columns) {
    why = "the result's rows are not the product's";
    return nullptr;
  }
  auto program = as_program(graph, node);
  for (ProgramInput& input : program->inputs) {
    const ValueId id = node.inputs[static_cast<size_t>(input.operand)];
    const Value& value = graph.value(id);
    Layout matrix;
    if (!broadcast_as_matrix(value.layout, sizes, rows, columns, matrix)) {
      why = fmt::format("%{} cannot be seen as rows without a copy", id);
      return nullptr;
    }
    if (value.base == product) {
      const int64_t width = made.sizes()[1], column = matrix.offset - made.layout.offset;
      if ((rows > 1 && matrix.strides[0] != width) || (columns > 1 && matrix.strides[1] != 1) || column < 0 ||
          column + columns > width) {
        why = fmt::format("%{} reads the product in another order", id);
        return nullptr;
      }
      input.operand = ProgramInput::kProduct;
      input.column = column;
      continue;
    }
    input.operand = static_cast<int16_t>(operands.size());
    operands.push_back(matrix);
    of.push_back(id);
  }
  return program;
}

void take(Graph& graph, PassContext& context, size_t at) {
  const std::vector<int> made_by = producers(graph);
  const ValueId product = product_for(graph, made_by, at);
  if (product == graph::kNoValue) return;
  const Node reader = graph.nodes[at];
  std::vector<Layout> operands;
  std::vector<ValueId> of;
  std::string why;
  auto program = epilogue_program(graph, reader, product, operands, of, why);
  Node merged = graph.nodes[static_cast<size_t>(made_by[static_cast<size_t>(product)])];
  if (program) {
    finish_program(*program, reader.op == Op::fused ? 0 : context.programs);
    if (reader.op == Op::fused) program->name = reader.program->name;
    if (const char* refusal = backend_for(graph.value(product).device).refuse_epilogue(merged.op, *program)) {
      why = refusal;
      program = nullptr;
    }
  }
  if (!program) {
    context.notes.push_back(fmt::format("%{} stays a kernel of its own: {}", reader.outputs[0], why));
    return;
  }
  if (reader.op != Op::fused) ++context.programs;
  merged.outputs.clear();
  std::vector<std::pair<ValueId, ValueId>> renamed;
  for (const ValueId output : reader.outputs) {
    Value value = graph.value(output);
    const Dims wide = value.sizes();
    const int64_t rows = graph.value(product).sizes()[0];
    value.layout.sizes = {rows, numel_of(wide) / rows};
    value.layout.strides = contiguous_strides(value.layout.sizes);
    value.base = graph::kNoValue;
    merged.outputs.push_back(graph.add_value(std::move(value)));
    renamed.emplace_back(output, merged.outputs.back());
  }
  merged.program = program;
  graph.nodes.erase(graph.nodes.begin() + static_cast<std::ptrdiff_t>(at));
  size_t here = at;
  for (size_t i = 0; i < operands.size(); ++i) {
    const size_t nodes = graph.nodes.size();
    merged.inputs.push_back(add_view(graph, of[i], operands[i], here));
    here += graph.nodes.size() - nodes;
  }
  graph.nodes.insert(graph.nodes.begin() + static_cast<std::ptrdiff_t>(here), std::move(merged));
  for (const auto& [old_id, new_id] : renamed) {
    const Layout wide = graph.value(old_id).layout;
    graph.replace_reads(old_id, add_view(graph, new_id, wide, here + 1));
  }
  context.notes.push_back(fmt::format("{} is computed on the product's block", program->name));
}

}  // namespace

// Pointwise work on a product is done where the product's block still is in registers or in cache.
void gemm_epilogue(Graph& graph, PassContext& context) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (as_program(graph, graph.nodes[i])) take(graph, context, i);
  }
  fold_views(graph);
}

}  // namespace epilogue::compiler
