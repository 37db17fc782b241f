// The passes over a captured graph: one file each, run in the order of the list by one runner that gives each
// its name, its timer, its off switch and the verification after it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "epilogue/compile.h"
#include "graph/graph.h"

namespace epilogue::compiler {

// Where each intermediate lives in the plan's workspace.
struct BufferPlan {
  std::vector<int64_t> offsets;  // by value; -1: an allocation of its own
  Device device{};               // of the workspace
  int64_t workspace = 0;         // bytes
  int64_t peak = 0, unplanned = 0;
};

struct PassContext {
  const CompileOptions& options;
  std::vector<std::string> notes;  // what was done, and why not more
  int programs = 0;                // numbers for their names
  BufferPlan buffers;

  bool enabled(const char* pass) const;  // asked for by name
};

struct Pass {
  const char* name;
  void (*run)(graph::Graph& graph, PassContext& context);
};

void dead_code(graph::Graph& graph, PassContext& context);
void common_subexpressions(graph::Graph& graph, PassContext& context);
void view_folding(graph::Graph& graph, PassContext& context);
void gemm_bias(graph::Graph& graph, PassContext& context);
void gated_fusion(graph::Graph& graph, PassContext& context);
void gate_up_merge(graph::Graph& graph, PassContext& context);
void pointwise_fusion(graph::Graph& graph, PassContext& context);
void gemm_epilogue(graph::Graph& graph, PassContext& context);
void buffer_planning(graph::Graph& graph, PassContext& context);

std::span<const Pass> all_passes();

struct PassReport {
  const char* name = "";
  double us = 0;
  bool off = false;
  std::vector<std::string> notes;
  std::string text;  // the graph after it, when asked for
};

struct PassesResult {
  std::vector<PassReport> reports;
  BufferPlan buffers;
};

// Throws Error when a name in options or in EPILOGUE_DISABLE_PASSES is no pass.
void check_pass_names(const CompileOptions& options);

// Throws Error when a pass leaves a graph that does not verify, or when a name in options is no pass.
PassesResult run_passes(graph::Graph& graph, const CompileOptions& options, bool keep_text = false);

}  // namespace epilogue::compiler
