#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/output.h"
#include "epilogue/trace.h"
#include "trace/diff.h"

namespace epilogue::cli {
namespace {

struct Options {
  std::string a, b, format = "table";
  std::vector<std::string> fail_on;
  trace::DiffText text;
};

int run(const Options& options) {
  const trace::Diff diff = trace::diff_traces(trace::read_trace(options.a), trace::read_trace(options.b));
  const std::vector<std::string> failed = trace::failed_conditions(diff, options.fail_on);
  if (options.format == "json") {
    fmt::print("{}", trace::diff_json(diff, failed));
  } else {
    print_text(trace::diff_text(diff, options.text));
    for (const std::string& condition : failed) print_text(fmt::format("\nFailed {}\n", condition));
  }
  return failed.empty() ? 0 : 1;
}

}  // namespace

void add_trace_diff(Command trace, int& exit_code) {
  const Command command =
      trace.add_subcommand("diff", "ops and kernels that came, went or changed between two traces");
  auto options = std::make_shared<Options>();
  command.add_option("A", options->a, "the trace before, .json or .json.gz").required();
  command.add_option("B", options->b, "the trace after").required();
  add_format_option(command, options->format);
  command.add_option("--rows", options->text.rows, "rows per table; -1: all").at_least(-1).show_default();
  command.add_option("--fail-on", options->fail_on, "a condition to exit 1 on; may be repeated")
      .one_value_each();
  command.footer(std::string(trace::fail_on_help()) +
                 "\n\nExamples:\n"
                 "  epilogue trace diff eager.json.gz compiled.json.gz\n"
                 "  epilogue trace diff main.json.gz branch.json.gz --fail-on kernels-per-step --fail-on "
                 "device-time:5%");
  command.callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace epilogue::cli
