#include "compile/plan.h"

#include <algorithm>

#include "backend/backend.h"
#include "base/check.h"
#include "op/dispatch.h"
#include "op/gated.h"
#include "op/infer.h"
#include "profile/event.h"
#include "tensor/storage.h"

namespace epilogue::compiler {
namespace {

using graph::Graph;
using graph::Node;
using graph::Value;
using graph::ValueId;

size_t index(ValueId id) { return static_cast<size_t>(id); }

int64_t flops_of(const Graph& graph, const Node& node) {
  const bool gated = is_gated(node);
  if (!is_product(node) && !gated) return 0;
  std::vector<Tensor> inputs;
  const int count = gated ? static_cast<int>(node.inputs.size()) : own_inputs(node);
  for (int i = 0; i < count; ++i) inputs.push_back(stand_in(graph.value(node.inputs[index(i)])));
  return infer(node.op, inputs, node.attrs).flops;
}

// By the ops' own functions: they have the parts at hand, should the kernel not take what it took when it was
// asked.
Tensor run_gated(const Node& node, const std::vector<Tensor>& inputs) {
  const bool whole = node.op == Op::gated_mlp;
  const size_t weights = whole ? 4 : 3;
  static const Tensor kNone;
  const auto bias = [&](size_t i) -> const Tensor& {
    return weights + i < inputs.size() ? inputs[weights + i] : kNone;
  };
  const GatedParts parts{inputs[1], inputs[2], whole ? inputs[3] : kNone, bias(0), bias(1), bias(2)};
  return whole ? gated_mlp(inputs[0], parts, node.attrs.act) : gated_linear(inputs[0], parts, node.attrs.act);
}

}  // namespace

Plan::Plan(Graph graph, BufferPlan buffers, StackedConstants& stacked)
    : graph_(std::move(graph)), buffers_(std::move(buffers)) {
  buffers_.offsets.resize(graph_.values.size(), -1);
  last_read_.resize(graph_.nodes.size());
  std::vector<int> last(graph_.values.size(), -1);
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    flops_.push_back(flops_of(graph_, graph_.nodes[i]));
    for (const ValueId id : graph_.nodes[i].outputs) last[index(graph_.value(id).base)] = static_cast<int>(i);
    for (const ValueId id : graph_.nodes[i].inputs) last[index(graph_.value(id).base)] = static_cast<int>(i);
  }
  std::vector<bool> leaves(graph_.values.size());
  for (const ValueId id : graph_.outputs) leaves[index(graph_.value(id).base)] = true;
  for (size_t v = 0; v < graph_.values.size(); ++v) {
    const Value& value = graph_.values[v];
    const bool used = last[v] >= 0 || leaves[v];
    if (value.kind == graph::ValueKind::constant && used)
      constants_.push_back(
          {static_cast<ValueId>(v), value.parts.empty() ? nullptr : stacked.of(value.parts)});
    if (value.kind == graph::ValueKind::result && last[v] >= 0 && !leaves[v])
      last_read_[static_cast<size_t>(last[v])].push_back(static_cast<ValueId>(v));
  }
}

// One call: the tensors that values are during it.
class Plan::Running {
 public:
  Running(const Plan& plan, std::span<const Tensor> inputs)
      : plan_(plan), tensors_(plan.graph_.values.size()) {
    const Graph& graph = plan.graph_;
    for (size_t i = 0; i < inputs.size(); ++i) tensors_[index(graph.inputs[i])] = inputs[i];
    for (const auto& [id, stacked] : plan.constants_)
      tensors_[index(id)] = stacked ? stacked->get() : graph.value(id).constant;
    if (plan.buffers_.workspace > 0)
      workspace_ = backend_for(plan.buffers_.device).allocate(static_cast<size_t>(plan.buffers_.workspace));
  }

  std::vector<Tensor> run() {
    const Graph& graph = plan_.graph_;
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      if (!is_view(graph.nodes[i])) run_node(i);
      for (const ValueId id : plan_.last_read_[i]) tensors_[index(id)] = {};
    }
    std::vector<Tensor> results;
    for (const ValueId id : graph.outputs) results.push_back(tensor(id));
    return results;
  }

 private:
  // A view has the place in its base that it had when it was captured.
  Tensor tensor(ValueId id) const {
    const Value& value = plan_.graph_.value(id);
    const Tensor& base = tensors_[index(value.base)];
    if (value.base == id) return base;
    const int64_t offset = base.offset() + value.layout.offset - plan_.graph_.value(value.base).layout.offset;
    return Tensor::over(base.storage_ref(), value.dtype, value.layout.sizes, value.layout.strides, offset);
  }

  Tensor make(ValueId id) const {
    const Value& value = plan_.graph_.value(id);
    const int64_t at = plan_.buffers_.offsets[index(id)];
    if (at < 0 || !workspace_.get())
      return empty(value.sizes(), {value.dtype, value.device});  // or all are empty
    return Tensor::over(workspace_, value.dtype, value.layout.sizes, value.layout.strides,
                        at / static_cast<int64_t>(dtype_size(value.dtype)));
  }

  void run_node(size_t at) {
    const Node& node = plan_.graph_.nodes[at];
    std::vector<Tensor> inputs, outputs;
    inputs.reserve(node.inputs.size());
    for (const ValueId id : node.inputs) inputs.push_back(tensor(id));
    const Device device = plan_.graph_.value(node.outputs[0]).device;
    if (moves_to_device(plan_.graph_, node)) {
      tensors_[index(node.outputs[0])] = dispatch(node.op, inputs, node.attrs);
      return;
    }
    if (is_gated(node)) {
      tensors_[index(node.outputs[0])] = run_gated(node, inputs);
      return;
    }
    for (const ValueId id : node.outputs) outputs.push_back(make(id));
    if (outputs[0].numel() > 0) {
      const profile::OpScope scope(op_row(node.op).name, inputs);
      backend_for(device).launch({node.op, node.attrs, inputs, outputs[0], plan_.flops_[at],
                                  node.program.get(),
                                  node.program ? std::span(outputs) : std::span<Tensor>()});
    }
    for (size_t o = 0; o < outputs.size(); ++o) tensors_[index(node.outputs[o])] = std::move(outputs[o]);
  }

  const Plan& plan_;
  std::vector<Tensor> tensors_;  // of bases
  detail::StorageRef workspace_;
};

std::vector<Tensor> Plan::run(std::span<const Tensor> inputs) const { return Running(*this, inputs).run(); }

void Plan::prepare() const {
  for (const Node& node : graph_.nodes)
    if (node.program) backend_for(graph_.value(node.outputs[0]).device).prepare(*node.program);
}

int64_t Plan::refresh_constants() const {
  int64_t made = 0;
  for (const Constant& constant : constants_) {
    if (!constant.stacked) continue;
    constant.stacked->get();
    made += constant.stacked->made();
  }
  return made;
}

bool Plan::is_prepared() const {
  return std::ranges::all_of(graph_.nodes, [&](const Node& node) {
    return !node.program || backend_for(graph_.value(node.outputs[0]).device).is_prepared(*node.program);
  });
}

}  // namespace epilogue::compiler
