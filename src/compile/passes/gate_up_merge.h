// Pairs of products over the same rows, and what makes them one: shared by gate_up_merge and gated_fusion.
#pragma once

#include <vector>

#include "compile/pass.h"

namespace epilogue::compiler {

// The results of two products that read the same rows and whose weights are parameters. Of a gate and its
// partner the gate is the first.
struct GatePair {
  graph::ValueId first = graph::kNoValue, second = graph::kNoValue;
};

std::vector<GatePair> find_gate_pairs(const graph::Graph& graph);

// Both become slices of one product over the stacked weights.
void merge_pair(graph::Graph& graph, const GatePair& pair);

}  // namespace epilogue::compiler
