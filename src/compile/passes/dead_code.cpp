#include "compile/passes/edit.h"

namespace epilogue::compiler {

void dead_code(graph::Graph& graph, PassContext& context) {
  if (const size_t removed = remove_unread(graph))
    context.notes.push_back(
        fmt::format("removed {} node{} that nobody reads", removed, removed == 1 ? "" : "s"));
}

}  // namespace epilogue::compiler
