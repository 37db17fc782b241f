// What passes do to a graph again and again.
#pragma once

#include <fmt/format.h>

#include "compile/pass.h"

namespace epilogue::compiler {

// Removes nodes of whose outputs none is read, until there are none; returns how many.
size_t remove_unread(graph::Graph& graph);

// Makes views of views views of what holds the data, drops those that change nothing and what nobody reads;
// returns how many views that were.
int fold_views(graph::Graph& graph);

// Gives every view the layout it has over what it views now.
void infer_views(graph::Graph& graph);

// Puts the nodes into an order in which each comes after what it reads, else as they stand.
void sort_nodes(graph::Graph& graph);

// The index of the node that makes each value; -1 for inputs and constants.
std::vector<int> producers(const graph::Graph& graph);

// A pointwise node, fused or not, or a rounding `to`, as a program with operands in the order of its inputs.
// Null for any other node.
std::shared_ptr<PointwiseProgram> as_program(const graph::Graph& graph, const graph::Node& node);

// Broadcast to `sizes`, then seen as [rows, columns]; false where that takes a copy.
bool broadcast_as_matrix(const Layout& layout, const Dims& sizes, int64_t rows, int64_t columns, Layout& out);

}  // namespace epilogue::compiler
