// The story of a graph in text: what was captured, what each pass did, and the kernels.
#include <algorithm>

#include <fmt/format.h>

#include "codegen/cuda_source.h"
#include "compile/function.h"

namespace epilogue {
namespace {

graph::Graph capture_with_symbols(const graph::Function& function, std::span<const Tensor> inputs) {
  try {
    return graph::capture(function, inputs, {.symbols = true});
  } catch (const Error&) {  // it asks for sizes of its own
    return graph::capture(function, inputs);
  }
}

// A symbol stands for any size by a large prime: what is told in bytes is taken from the inputs as they are.
void tell_real_sizes(compiler::PassesResult& passes, const graph::Function& function,
                     std::span<const Tensor> inputs, const CompileOptions& options) {
  graph::Graph sized = graph::capture(function, inputs);
  const compiler::PassesResult real = compiler::run_passes(sized, options, true);
  for (size_t i = 0; i < passes.reports.size(); ++i) passes.reports[i].notes = real.reports[i].notes;
}

std::string pass_text(const compiler::PassReport& report, const std::string& before) {
  std::string text = fmt::format("\n== {}", report.name);
  if (report.off) return text + ": off\n";
  text += fmt::format(": {:.1f} us\n", report.us);
  for (const std::string& note : report.notes) text += "   " + note + "\n";
  return text + (report.text == before ? "   the graph is as before\n" : report.text);
}

// Which passes took the generated kernels into others, where they did: without them there is code to show.
std::string way_to_code(const graph::Function& function, std::span<const Tensor> inputs,
                        CompileOptions options) {
  const auto takers = {"gated_fusion", "gemm_epilogue"};
  options.disable.insert(options.disable.end(), takers.begin(), takers.end());
  graph::Graph graph = graph::capture(function, inputs);
  compiler::run_passes(graph, options);
  const bool some = std::ranges::any_of(graph.nodes, [](const graph::Node& node) { return !!node.program; });
  return some ? fmt::format("; disable {} to see those they took in", fmt::join(takers, ",")) : "";
}

}  // namespace

std::string CompiledFunction::State::explain(std::span<const Tensor> inputs,
                                             const ExplainOptions& what) const {
  graph::Graph graph = capture_with_symbols(function, inputs);
  std::string text = "== captured\n" + to_text(graph);
  for (const auto& [name, prime] : graph.symbols)
    text += fmt::format("{}{}", name == graph.symbols[0].first ? "   any size: " : ", ", name);
  if (!graph.symbols.empty()) text += "\n";
  std::string before = to_text(graph);
  compiler::PassesResult passes = compiler::run_passes(graph, options, true);
  if (!graph.symbols.empty()) tell_real_sizes(passes, function, inputs, options);
  if (what.passes)
    for (const compiler::PassReport& report : passes.reports) {
      text += pass_text(report, before);
      before = report.text;
    }
  else
    text += "\n== after all passes\n" + to_text(graph);
  if (!what.code) return text;
  std::string code;
  for (const graph::Node& node : graph.nodes)
    if (node.program)
      code += fmt::format("\n== {}\n{}", node.program->name, codegen::cuda_source(*node.program));
  if (code.empty())
    return text + "\n== code: none, no generated kernel is left in this graph" +
           way_to_code(function, inputs, options) + "\n";
  if (!inputs.empty() && inputs[0].device().type == DeviceType::cpu)
    text += "\n== code: for a GPU; the CPU runs the same programs by the kernels of its ops\n";
  text += code;
  return text;
}

}  // namespace epilogue
