#include <algorithm>
#include <map>
#include <set>

#include "compile/passes/edit.h"

namespace epilogue::compiler {
namespace {

using graph::Graph;
using graph::Node;
using graph::Value;
using graph::ValueId;

// Groups of nodes that become one kernel. A group may not be left and entered again on the way from one of
// its nodes to another: that would be a cycle.
class Grouping {
 public:
  explicit Grouping(const Graph& graph)
      : graph_(graph), made_by_(producers(graph)), group_(graph.nodes.size()) {
    for (size_t i = 0; i < group_.size(); ++i) {
      group_[i] = i;
      members_.push_back({i});
    }
  }

  void run() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (!as_program(graph_, graph_.nodes[i])) continue;
      for (const ValueId input : graph_.nodes[i].inputs) {
        const int from = made_by_[static_cast<size_t>(input)];
        if (from >= 0) try_merge(group_[static_cast<size_t>(from)], group_[i]);
      }
    }
  }

  std::vector<std::vector<size_t>> groups() const {
    std::vector<std::vector<size_t>> found;
    for (std::vector<size_t> members : members_) {
      std::ranges::sort(members);
      if (members.size() > 1) found.push_back(std::move(members));
    }
    return found;
  }

 private:
  bool alike(size_t a, size_t b) const {
    const Node &x = graph_.nodes[a], &y = graph_.nodes[b];
    if (!as_program(graph_, x) || !as_program(graph_, y)) return false;
    const Value &u = graph_.value(x.outputs[0]), &v = graph_.value(y.outputs[0]);
    return u.sizes() == v.sizes() && u.device == v.device &&
           program_compute_type(u.dtype) == program_compute_type(v.dtype);
  }

  bool small_enough(size_t a, size_t b) const {
    std::set<ValueId> read, made;
    size_t steps = 0;
    for (const size_t group : {a, b})
      for (const size_t member : members_[group]) {
        const Node& node = graph_.nodes[member];
        read.insert(node.inputs.begin(), node.inputs.end());
        made.insert(node.outputs.begin(), node.outputs.end());
        steps += node.program ? node.program->steps.size() : 1;
      }
    const auto inputs = std::ranges::count_if(read, [&](ValueId id) { return !made.contains(id); });
    return inputs <= PointwiseProgram::kMostInputs && steps <= PointwiseProgram::kMostSteps;
  }

  // Whether `later` depends on `earlier` through a node of neither.
  bool through_others(size_t earlier, size_t later) const {
    std::vector<size_t> stack;
    std::set<size_t> seen;
    const auto push_sources = [&](size_t group, bool direct) {
      for (const size_t member : members_[group])
        for (const ValueId input : graph_.nodes[member].inputs) {
          const int from = made_by_[static_cast<size_t>(input)];
          if (from < 0) continue;
          const size_t source = group_[static_cast<size_t>(from)];
          if (source == group || (direct && source == earlier)) continue;
          if (seen.insert(source).second) stack.push_back(source);
        }
    };
    push_sources(later, true);
    while (!stack.empty()) {
      const size_t group = stack.back();
      stack.pop_back();
      if (group == earlier) return true;
      push_sources(group, false);
    }
    return false;
  }

  void try_merge(size_t a, size_t b) {
    if (a == b || !alike(members_[a][0], members_[b][0]) || !small_enough(a, b)) return;
    if (through_others(a, b) || through_others(b, a)) return;
    for (const size_t member : members_[a]) group_[member] = b;
    members_[b].insert(members_[b].end(), members_[a].begin(), members_[a].end());
    members_[a].clear();
  }

  const Graph& graph_;
  const std::vector<int> made_by_;
  std::vector<size_t> group_;                 // of each node
  std::vector<std::vector<size_t>> members_;  // of each group
};

// The members as one node. Null when more values leave the group than a program gives.
std::shared_ptr<Node> fuse(const Graph& graph, const std::vector<size_t>& members, int number) {
  auto fused = std::make_shared<Node>(Node{.op = Op::fused});
  auto program = std::make_shared<PointwiseProgram>();
  std::map<ValueId, int16_t> inputs, inside;  // operand numbers; values of the program
  std::set<ValueId> made;
  for (const size_t member : members)
    made.insert(graph.nodes[member].outputs.begin(), graph.nodes[member].outputs.end());
  for (const size_t member : members)
    for (const ValueId input : graph.nodes[member].inputs) {
      if (made.contains(input) || inputs.contains(input)) continue;
      inputs[input] = static_cast<int16_t>(fused->inputs.size());
      program->inputs.push_back({graph.value(input).dtype, inputs[input], 0});
      fused->inputs.push_back(input);
    }
  for (const size_t member : members) {
    const Node& node = graph.nodes[member];
    const auto part = as_program(graph, node);
    const auto shift = static_cast<int>(program->values());
    const auto value_of = [&](int16_t value) {
      if (value >= static_cast<int16_t>(part->inputs.size()))
        return static_cast<int16_t>(value - static_cast<int>(part->inputs.size()) + shift);
      const ValueId id = node.inputs[static_cast<size_t>(part->inputs[static_cast<size_t>(value)].operand)];
      return made.contains(id) ? inside.at(id) : inputs.at(id);
    };
    program->compute = part->compute;
    for (ProgramStep step : part->steps) {
      step.a = value_of(step.a);
      if (step.b >= 0) step.b = value_of(step.b);
      program->steps.push_back(step);
    }
    for (size_t o = 0; o < node.outputs.size(); ++o)
      inside[node.outputs[o]] = value_of(part->outputs[o].value);
  }
  std::set<ValueId> outside(graph.outputs.begin(), graph.outputs.end());
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    if (!std::ranges::binary_search(members, i))
      outside.insert(graph.nodes[i].inputs.begin(), graph.nodes[i].inputs.end());
  for (const auto& [id, value] : inside) {
    if (!outside.contains(id)) continue;
    program->outputs.push_back({value, graph.value(id).dtype});
    fused->outputs.push_back(id);
  }
  if (program->outputs.size() > PointwiseProgram::kMostOutputs) return nullptr;
  finish_program(*program, number);
  fused->program = std::move(program);
  return fused;
}

}  // namespace

void pointwise_fusion(Graph& graph, PassContext& context) {
  remove_unread(graph);
  Grouping grouping(graph);
  grouping.run();
  std::vector<bool> gone(graph.nodes.size());
  std::map<size_t, Node> fused_at;  // the place of the group's last member
  for (const std::vector<size_t>& members : grouping.groups()) {
    const auto fused = fuse(graph, members, context.programs);
    if (!fused) {
      context.notes.push_back(
          fmt::format("{} ops stay apart: more than {} of their results are read elsewhere", members.size(),
                      PointwiseProgram::kMostOutputs));
      continue;
    }
    ++context.programs;
    for (const size_t member : members) gone[member] = true;
    fused_at[members.back()] = *fused;
    context.notes.push_back(fmt::format("{} ops became {}", members.size(), fused->program->name));
  }
  std::vector<Node> nodes;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (fused_at.contains(i)) nodes.push_back(fused_at[i]);
    if (!gone[i]) nodes.push_back(graph.nodes[i]);
  }
  graph.nodes = std::move(nodes);
  sort_nodes(graph);
}

}  // namespace epilogue::compiler
