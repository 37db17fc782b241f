#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/output.h"
#include "epilogue/trace.h"
#include "trace/summary.h"

namespace epilogue::cli {
namespace {

struct Options {
  std::vector<std::string> files;
  std::string format = "table";
  trace::SummaryText text;
};

void run(const Options& options) {
  std::vector<trace::Summary> summaries;
  for (const std::string& file : options.files)
    summaries.push_back(trace::summarise(trace::read_trace(file)));
  if (options.format == "json")
    fmt::print("{}", trace::summary_json(summaries));
  else
    print_text(trace::summary_text(summaries, options.text));
}

}  // namespace

void add_trace_summary(Command trace, int&) {
  const Command command =
      trace.add_subcommand("summary", "steps, ops, kernels, copies, memory, launches, and what was damaged");
  auto options = std::make_shared<Options>();
  command.add_option("FILE", options->files, "traces, .json or .json.gz; - is standard input").required();
  add_format_option(command, options->format);
  command.add_option(
      "--sort", options->text.sort_by,
      "order of the op table, PyTorch's keys: cpu_time_total, self_cuda_time_total, count, ...");
  command.add_option("--rows", options->text.rows, "rows per table; -1: all").at_least(-1).show_default();
  command.footer(
      "Examples:\n"
      "  epilogue trace summary run.json.gz\n"
      "  epilogue trace summary eager.json.gz compiled.json.gz      side by side\n"
      "  zcat run.json.gz | epilogue trace summary - --format json");
  command.callback([options] { run(*options); });
}

}  // namespace epilogue::cli
