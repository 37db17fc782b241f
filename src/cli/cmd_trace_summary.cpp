#include <string>
#include <vector>

#include <fmt/format.h>

#include "cli/commands.h"
#include "epilogue/profiler.h"
#include "trace/op_table.h"

namespace epilogue::cli {
namespace {

struct Options {
  std::vector<std::string> files;
  std::string sort_by = "cuda_time_total";
  int rows = 40;
};

void run(const Options& options) {
  for (const std::string& file : options.files) {
    const trace::Trace trace = trace::read_trace(file);
    fmt::print("{}", trace::key_averages(trace).table({.sort_by = options.sort_by, .rows = options.rows}));
    for (const trace::Problem& problem : trace.problems) fmt::print("{}: {}\n", problem.what, problem.count);
  }
}

}  // namespace

void add_trace_summary(CLI::App& trace, int&) {
  CLI::App* command = trace.add_subcommand("summary", "steps, ops, kernels, memory and what was wrong");
  auto options = std::make_shared<Options>();
  command->add_option("files", options->files, "traces, .json or .json.gz; - is standard input")->required();
  command->add_option("--sort", options->sort_by, "the op table's order: PyTorch's keys")
      ->capture_default_str();
  command->add_option("--rows", options->rows, "rows per table")->capture_default_str();
  command->callback([options] { run(*options); });
}

}  // namespace epilogue::cli
