#include <algorithm>

#include "base/check.h"
#include "graph/graph.h"
#include "op/infer.h"

namespace epilogue::graph {
namespace {

class Verifier {
 public:
  Verifier(const Graph& graph, const std::string& after) : graph_(graph), after_(after) {}

  void run() {
    made_.assign(graph_.values.size(), false);
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      made_[v] = graph_.values[v].kind != ValueKind::result;
      if (made_[v]) check_base(static_cast<ValueId>(v));
    }
    for (const Node& node : graph_.nodes) check_node(node);
    for (const ValueId output : graph_.outputs)
      require(known(output) && made_[static_cast<size_t>(output)], "the output %{} is never made", output);
  }

 private:
  template <class... Args>
  void require(bool condition, fmt::format_string<Args...> format, Args&&... args) const {
    if (!condition) fail("compile: after {}: {}", after_, fmt::format(format, std::forward<Args>(args)...));
  }

  bool known(ValueId id) const { return id >= 0 && static_cast<size_t>(id) < graph_.values.size(); }

  // Only of what is there: the base of a view whose node was removed may have become a view itself.
  void check_base(ValueId id) const {
    const ValueId base = graph_.value(id).base;
    require(known(base) && graph_.value(base).base == base,
            "value %{} views %{}, which has no storage of its own", id, base);
  }

  void check_node(const Node& node) {
    const char* name = op_row(node.op).name;
    for (const ValueId input : node.inputs)
      require(known(input) && made_[static_cast<size_t>(input)], "{} reads %{} before it is made", name,
              input);
    require(!node.outputs.empty(), "{} makes nothing", name);
    for (const ValueId output : node.outputs) {
      require(known(output) && !made_[static_cast<size_t>(output)], "{} makes %{}, which is there already",
              name, output);
      made_[static_cast<size_t>(output)] = true;
      check_base(output);
    }
    if (node.program) check_program(node, name);
    if (node.op != Op::fused && node.op != Op::fill_) check_inferred(node, name);
  }

  void check_program(const Node& node, const char* name) const {
    const PointwiseProgram& program = *node.program;
    const size_t own = node.op == Op::fused ? 0 : static_cast<size_t>(own_inputs(node));
    require(program.outputs.size() == node.outputs.size(), "{} makes {} values, its program {}", name,
            node.outputs.size(), program.outputs.size());
    for (size_t i = 0; i < program.outputs.size(); ++i)
      require(program.outputs[i].value >= 0 && program.outputs[i].value < program.values() &&
                  program.outputs[i].dtype == graph_.value(node.outputs[i]).dtype,
              "output {} of {} is not what its program gives", i, program.name);
    for (const ProgramInput& input : program.inputs) {
      if (input.operand == ProgramInput::kProduct) {
        require(node.op != Op::fused, "{} reads a product and is no epilogue", program.name);
        continue;
      }
      const size_t at = own + static_cast<size_t>(input.operand);
      require(at < node.inputs.size() && graph_.value(node.inputs[at]).dtype == input.dtype,
              "{} reads operand {}, which is not there or of another dtype", program.name, input.operand);
    }
    for (size_t i = 0; i < program.steps.size(); ++i) {
      const auto before = static_cast<int>(program.inputs.size() + i);
      require(program.steps[i].a < before && program.steps[i].b < before,
              "step {} of {} reads what comes later", i, program.name);
    }
  }

  // A product's epilogue may read some of its columns: only its rows are known from here.
  void check_inferred(const Node& node, const char* name) const {
    std::vector<Tensor> inputs;
    const size_t own = is_product(node) ? static_cast<size_t>(own_inputs(node)) : node.inputs.size();
    for (size_t i = 0; i < own; ++i) inputs.push_back(stand_in(graph_.value(node.inputs[i])));
    const Inferred out = infer(node.op, inputs, node.attrs);
    const Value& value = graph_.value(node.outputs[0]);
    if (node.program) {
      require(value.sizes().size() == 2 && value.sizes()[0] == out.layout.sizes[0] &&
                  value.sizes()[1] <= out.layout.sizes[1],
              "{} gives {}, its epilogue {}", name, out.layout.sizes.to_string(), value.sizes().to_string());
      return;
    }
    require(value.dtype == out.dtype && value.sizes() == out.layout.sizes,
            "{} gives {} {}, the graph says {} {}", name, dtype_name(out.dtype), out.layout.sizes.to_string(),
            dtype_name(value.dtype), value.sizes().to_string());
    if (!is_view(node)) return;
    require(value.base == graph_.value(node.inputs[0]).base && same_layout(value.layout, out.layout),
            "{} of %{} does not have the layout that the graph says", name, node.inputs[0]);
  }

  const Graph& graph_;
  const std::string& after_;
  std::vector<bool> made_;
};

}  // namespace

void verify(const Graph& graph, const std::string& after) { Verifier(graph, after).run(); }

}  // namespace epilogue::graph
