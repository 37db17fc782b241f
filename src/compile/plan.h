// A graph after its passes, ready to run for one combination of input sizes: kernels and where their results
// go.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "compile/pass.h"
#include "compile/stacked.h"
#include "graph/graph.h"

namespace epilogue::compiler {

// Immutable: any number of threads may run it at once, each with intermediates of its own.
class Plan {
 public:
  Plan(graph::Graph graph, BufferPlan buffers, StackedConstants& stacked);

  // The inputs have the sizes and strides that the graph was captured with.
  std::vector<Tensor> run(std::span<const Tensor> inputs) const;

  // Makes what the backends must build ready, which may take long; throws Error when one cannot.
  void prepare() const;
  bool is_prepared() const;
  // Brings stacked parameters up to date; the number changes whenever one was made anew.
  int64_t refresh_constants() const;

  const BufferPlan& buffers() const { return buffers_; }
  const graph::Graph& graph() const { return graph_; }

 private:
  class Running;

  graph::Graph graph_;
  BufferPlan buffers_;
  struct Constant {
    graph::ValueId id = graph::kNoValue;
    std::shared_ptr<StackedConstant> stacked;  // where it is made of parts
  };
  std::vector<int64_t> flops_;       // of each node
  std::vector<Constant> constants_;  // those that are read
  std::vector<std::vector<graph::ValueId>>
      last_read_;  // of each node: what has an allocation of its own and ends there
};

}  // namespace epilogue::compiler
