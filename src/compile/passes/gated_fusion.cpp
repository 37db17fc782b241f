#include <algorithm>

#include "backend/backend.h"
#include "compile/passes/edit.h"
#include "compile/passes/gate_up_merge.h"

namespace epilogue::compiler {
namespace {

using graph::Graph;
using graph::Node;
using graph::ValueId;

const Node* only_reader(const Graph& graph, ValueId base) {
  const Node* reader = nullptr;
  for (const Node& node : graph.nodes) {
    if (is_view(node)) continue;
    if (std::ranges::none_of(node.inputs, [&](ValueId id) { return graph.value(id).base == base; })) continue;
    if (reader) return nullptr;
    reader = &node;
  }
  return reader;
}

// act(gate) * up as the program of the merged product's epilogue; null where the pair is read in another way.
std::shared_ptr<PointwiseProgram> gate_program(const Graph& graph, const GatePair& pair, int64_t columns) {
  const Node* activation = only_reader(graph, pair.first);
  const Node* product = only_reader(graph, pair.second);
  if (!activation || !product) return nullptr;
  const bool apart =
      (activation->op == Op::gelu || activation->op == Op::silu || activation->op == Op::relu) &&
      product->op == Op::mul && only_reader(graph, activation->outputs[0]) == product;
  const bool joined = activation == product && (product->op == Op::gelu_mul || product->op == Op::silu_mul) &&
                      graph.value(product->inputs[0]).base == pair.first;
  if (!apart && !joined) return nullptr;
  const DType dtype = graph.value(pair.first).dtype;
  auto program = std::make_shared<PointwiseProgram>();
  program->compute = program_compute_type(dtype);
  program->inputs = {{dtype, ProgramInput::kProduct, 0}, {dtype, ProgramInput::kProduct, columns}};
  program->steps.push_back({.op = activation->op,
                            .approximate = activation->attrs.approximate,
                            .a = 0,
                            .b = static_cast<int16_t>(joined ? 1 : -1)});
  if (apart) program->steps.push_back({.op = Op::mul, .a = 2, .b = 1});
  program->outputs = {{static_cast<int16_t>(apart ? 3 : 2), dtype}};
  finish_program(*program, 0);
  return program;
}

}  // namespace

// Where the device has a kernel that computes act(gate) * up while both are still in registers, gate and up
// become one product; pointwise_fusion and gemm_epilogue then give it the gate as its epilogue.
void gated_fusion(Graph& graph, PassContext& context) {
  for (const GatePair& pair : find_gate_pairs(graph)) {
    const auto program = gate_program(graph, pair, graph.value(pair.first).sizes()[1]);
    if (!program) continue;
    const char* reason = backend_for(graph.value(pair.first).device).refuse_gated_product(*program);
    if (reason) {
      context.notes.push_back(
          fmt::format("%{} and %{} have no gated kernel: {}", pair.first, pair.second, reason));
      continue;
    }
    merge_pair(graph, pair);
    context.notes.push_back(fmt::format("%{} and %{} go to the gated kernel", pair.first, pair.second));
  }
}

}  // namespace epilogue::compiler
