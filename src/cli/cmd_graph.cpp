#include <sstream>
#include <string>

#include <fmt/format.h>

#include "base/format.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/problem.h"

namespace epilogue::cli {
namespace {

struct Options {
  std::string format = "table", disable, enable;
  ExplainOptions explain;
};

std::vector<std::string> words(const std::string& list) {
  std::vector<std::string> found;
  std::istringstream names(list);
  for (std::string name; std::getline(names, name, ',');) found.push_back(name);
  return found;
}

void run(const Problem& problem, const Options& options) {
  const Workload workload = make_workload(problem, nn::Mode::eager);
  const CompiledFunction compiled =
      compile(workload.forward, {.disable = words(options.disable), .enable = words(options.enable)});
  const std::string story = compiled.explain(std::span(&workload.x, 1), options.explain);
  if (options.format == "json")
    fmt::print("{{\"problem\":{},\"device\":\"{}\",\"dtype\":\"{}\",\"story\":{}}}\n", problem.to_json(),
               device_name(problem.device), dtype_name(problem.dtype), json_quote(story));
  else
    fmt::print("{}\n{}", problem.to_string(), story);
}

void add_graph_of(Command parent, const char* name, const char* what, ProblemKind kind) {
  const Command command = parent.add_subcommand(name, what);
  auto problem = std::make_shared<ProblemOptions>(command, kind);
  auto options = std::make_shared<Options>();
  command.add_flag("--passes", options->explain.passes,
                   "the graph after each pass, and why not more was done");
  command.add_flag("--code", options->explain.code, "the kernels that are generated for a GPU");
  command.add_option("--disable", options->disable, "passes to leave out, with commas");
  command.add_option("--enable", options->enable,
                     "passes that the device leaves out: gate_up_merge on a CPU");
  add_format_option(command, options->format);
  command.footer(fmt::format("Example:\n  epilogue graph {} --passes --code", name));
  command.callback([problem, options] { run(problem->finish(), *options); });
}

}  // namespace

void add_graph(Command app, int&) {
  const Command command =
      app.add_subcommand("graph", "the graph that compile() captures, and what it makes of it");
  command.require_subcommand();
  add_graph_of(command, "linear", "x times a weight, plus a bias", ProblemKind::linear);
  add_graph_of(command, "matmul-add", "the pair that linear replaces", ProblemKind::matmul_add);
  add_graph_of(command, "mlp", "the (gated) MLP", ProblemKind::mlp);
}

}  // namespace epilogue::cli
