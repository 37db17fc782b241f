#include <algorithm>
#include <optional>

#include "backend/backend.h"
#include "compile/passes/edit.h"
#include "compile/passes/gate_up_merge.h"
#include "tensor/storage.h"

namespace epilogue::compiler {
namespace {

using graph::Graph;
using graph::Node;
using graph::Value;
using graph::ValueId;

// act(gate) * up over the same rows, and, where that is all that reads it, the product with down.
struct Gated {
  Op op = Op::gated_linear;
  Act act = Act::none;
  std::vector<ValueId> inputs;           // in the op's order
  ValueId result = graph::kNoValue;      // what it stands for
  std::vector<ValueId> stands_for = {};  // the products it replaces, for the notes
};

// The only node that reads a value or a view of it; null when there are several or it leaves the graph.
const Node* only_reader(const Graph& graph, ValueId base) {
  const auto of_base = [&](ValueId id) { return graph.value(id).base == base; };
  if (std::ranges::any_of(graph.outputs, of_base)) return nullptr;
  const Node* reader = nullptr;
  for (const Node& node : graph.nodes) {
    if (is_view(node) || std::ranges::none_of(node.inputs, of_base)) continue;
    if (reader) return nullptr;
    reader = &node;
  }
  return reader;
}

std::optional<Act> activation_of(const Node& node) {
  if (node.attrs.implementation) return {};  // asked of one kernel
  const bool tanh = node.attrs.approximate == GeluApproximate::tanh;
  switch (node.op) {
    case Op::relu:
      return Act::relu;
    case Op::silu:
    case Op::silu_mul:
      return Act::silu;
    case Op::gelu:
    case Op::gelu_mul:
      return tanh ? Act::gelu_tanh : Act::gelu;
    default:
      return {};
  }
}

// All of a product's elements in their order, whatever the shape.
bool is_whole(const Graph& graph, ValueId id) {
  const Value &value = graph.value(id), &base = graph.value(graph.value(id).base);
  return is_contiguous(value.layout.sizes, value.layout.strides) &&
         numel_of(value.sizes()) == numel_of(base.sizes());
}

std::optional<Gated> match_pair(const Graph& graph, const GatePair& pair) {
  const Node *activation = only_reader(graph, pair.first), *product = only_reader(graph, pair.second);
  if (!activation || !product) return {};
  const bool plain = activation == product && product->op == Op::mul && !product->attrs.implementation;
  const std::optional<Act> act = plain ? Act::none : activation_of(*activation);
  const bool joined = activation == product && (product->op == Op::gelu_mul || product->op == Op::silu_mul) &&
                      graph.value(product->inputs[0]).base == pair.first;
  const bool apart = product->op == Op::mul && activation != product && activation->inputs.size() == 1 &&
                     only_reader(graph, activation->outputs[0]) == product;
  if (!act || (!joined && !apart && !plain)) return {};
  // Views of as many elements may still broadcast to more: a column with a row.
  if (numel_of(graph.value(product->outputs[0]).sizes()) != numel_of(graph.value(pair.first).sizes()))
    return {};
  for (const Node* node : {activation, product})
    for (const ValueId input : node->inputs)
      if (!is_whole(graph, input)) return {};
  const Node &gate = *graph.producer(pair.first), &up = *graph.producer(pair.second);
  if (graph.value(pair.first).sizes() != graph.value(pair.second).sizes()) return {};
  Gated gated{
      .act = *act, .inputs = {}, .result = product->outputs[0], .stands_for = {pair.first, pair.second}};
  gated.inputs = {gate.inputs[gate.inputs.size() - 2], graph.value(gate.inputs.back()).base,
                  graph.value(up.inputs.back()).base};
  if (gate.op == Op::addmm) gated.inputs.insert(gated.inputs.end(), {gate.inputs[0], up.inputs[0]});
  return gated;
}

// The same with the product that follows, when nothing else reads what is between.
std::optional<Gated> with_down(const Graph& graph, const Gated& pair) {
  const bool biases = pair.inputs.size() > 3;
  const Node* down = only_reader(graph, pair.result);
  if (!down || down->op != (biases ? Op::addmm : Op::mm) || down->program) return {};
  const Value& rows = graph.value(down->inputs[down->inputs.size() - 2]);
  const Value& factor = graph.value(down->inputs.back());
  const Value& weight = graph.value(factor.base);
  if (rows.base != pair.result || !is_whole(graph, down->inputs[down->inputs.size() - 2]) ||
      rows.sizes() != graph.value(pair.stands_for[0]).sizes() || weight.kind != graph::ValueKind::constant ||
      weight.sizes().size() != 2 || !graph::same_layout(factor.layout, view_t(weight.layout)))
    return {};
  if (biases && graph.value(down->inputs[0]).sizes() != Dims{weight.sizes()[0]}) return {};
  Gated whole = pair;
  whole.op = Op::gated_mlp;
  whole.inputs.insert(whole.inputs.begin() + 3, factor.base);
  if (biases) whole.inputs.push_back(down->inputs[0]);
  whole.result = down->outputs[0];
  whole.stands_for.push_back(down->outputs[0]);
  return whole;
}

Value result_of(const Graph& graph, const Gated& gated) {
  const Value& rows = graph.value(gated.inputs[0]);
  const Dims sizes{rows.sizes()[0], graph.value(gated.inputs[gated.op == Op::gated_mlp ? 3 : 1]).sizes()[0]};
  return {.dtype = rows.dtype, .device = rows.device, .layout = {sizes, contiguous_strides(sizes), 0}};
}

// An address to be looked at and never read: implementations judge sizes, strides and alignment.
Tensor tensor_to_ask_with(const Value& value) {
  constexpr uintptr_t kSomewhere = uintptr_t{1} << 20;
  return Tensor::over(storage_over(reinterpret_cast<void*>(kSomewhere), SIZE_MAX / 16, value.device, {}),
                      value.dtype, value.layout.sizes, value.layout.strides, 0);
}

// "" when the device has a kernel that takes it, otherwise why not.
std::string refusal(const Graph& graph, const Gated& gated) {
  std::vector<Tensor> inputs;
  for (const ValueId id : gated.inputs) {
    const Value& value = graph.value(id);
    inputs.push_back(tensor_to_ask_with(value));
    inputs.back().set_parameter(value.constant.is_parameter());
  }
  Tensor output = tensor_to_ask_with(result_of(graph, gated));
  const Attrs attrs{.act = gated.act};
  std::string told;
  for (const Refusal& refusal : backend_for(output.device()).refusals({gated.op, attrs, inputs, output}))
    told += (told.empty() ? "" : "; ") + refusal.to_string();
  return told;
}

void rewrite(Graph& graph, const Gated& gated) {
  const Layout shape = graph.value(gated.result).layout;
  const ValueId made = graph.add_value(result_of(graph, gated));
  const auto at =
      std::ranges::find_if(graph.nodes, [&](const Node& node) { return node.outputs[0] == gated.result; });
  Node node{.op = gated.op, .inputs = gated.inputs, .outputs = {made}};
  node.attrs.act = gated.act;
  const auto index = static_cast<size_t>(at - graph.nodes.begin());
  graph.nodes[index] = std::move(node);
  graph.replace_reads(gated.result, add_view(graph, made, {shape.sizes, shape.strides, 0}, index + 1));
  remove_unread(graph);
  infer_views(graph);
}

}  // namespace

// Where the device has a kernel that computes act(gate) * up while both are still in registers, or the whole
// block while it is in cache, the ops become that one.
void gated_fusion(Graph& graph, PassContext& context) {
  for (const GatePair& pair : find_gate_pairs(graph)) {
    const auto linear = match_pair(graph, pair);
    if (!linear) continue;
    const auto whole = with_down(graph, *linear);
    bool done = false;
    for (const auto& gated : {whole, linear}) {
      if (done || !gated) continue;
      const std::string why = context.enabled("gated_fusion") ? "" : refusal(graph, *gated);
      const std::string products = fmt::format("%{}", fmt::join(gated->stands_for, ", %"));
      const char* op = op_row(gated->op).name;
      context.notes.push_back(why.empty() ? fmt::format("{} became {}", products, op)
                                          : fmt::format("{} have no kernel for {}: {}", products, op, why));
      if (!why.empty()) continue;
      rewrite(graph, *gated);
      done = true;
    }
  }
}

}  // namespace epilogue::compiler
