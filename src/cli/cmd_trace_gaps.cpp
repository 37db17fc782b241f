#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/output.h"
#include "epilogue/trace.h"
#include "trace/gaps.h"

namespace epilogue::cli {
namespace {

struct Options {
  std::vector<std::string> files;
  std::string format = "table";
  int rows = 20;
};

void run(const Options& options) {
  std::vector<std::string> texts;
  for (const std::string& file : options.files) {
    const trace::Trace trace = trace::read_trace(file);
    if (options.format == "table") print_problems(trace);
    texts.push_back(options.format == "json" ? trace::gaps_json(trace, options.rows)
                                             : trace::gaps_text(trace, options.rows));
  }
  if (options.format == "table")
    print_text(fmt::format("{}", fmt::join(texts, "\n")));
  else if (texts.size() == 1)
    fmt::print("{}\n", texts.front());
  else
    fmt::print("{{\"files\":[{}]}}\n", fmt::join(texts, ",\n"));
}

}  // namespace

void add_trace_gaps(Command trace, int&) {
  const Command command =
      trace.add_subcommand("gaps", "where streams had nothing to do, and what the host did meanwhile");
  auto options = std::make_shared<Options>();
  command.add_option("FILE", options->files, "traces, .json or .json.gz; - is standard input").required();
  add_format_option(command, options->format);
  command.add_option("--rows", options->rows, "longest gaps to show; -1: all").at_least(-1).show_default();
  command.footer(
      "Examples:\n"
      "  epilogue trace gaps run.json.gz\n"
      "  epilogue trace gaps run.json.gz --rows 5 --format json");
  command.callback([options] { run(*options); });
}

}  // namespace epilogue::cli
