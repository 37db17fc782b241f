#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "base/check.h"
#include "base/file.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "epilogue/trace.h"
#include "trace/expect.h"
#include "trace/steps.h"

namespace epilogue::cli {
namespace {

struct Options {
  std::vector<std::string> paths;  // RULES FILE..., with --write FILE
  std::string write, junit, format = "table";
  bool force = false;
};

// Rules are written once and edited from then on. A pipe or a device holds nothing that could be lost.
void check_not_there(const Options& options) {
  std::error_code error;
  EP_CHECK(options.force || options.write == "-" || !std::filesystem::is_regular_file(options.write, error),
           "{}: is there already and may have been edited: expected another name, or --force to replace it",
           options.write);
}

void propose(const Options& options) {
  EP_CHECK(options.junit.empty(), "trace expect: --junit takes the results of rules, --write has none");
  EP_CHECK(options.paths.size() == 1, "trace expect --write: expected one trace, got {}",
           options.paths.size());
  check_no_input(options.write, options.paths);
  check_not_there(options);
  const trace::Trace read = trace::read_trace(options.paths.front());
  print_problems(read);
  const std::string rules = trace::propose_rules(read);
  if (!trace::origin_of(read).is_step)
    tell(fmt::format(
        "{}: marks no steps, so that no rule on steps is proposed: call prof.step() after each, of a "
        "profiler with a schedule",
        read.source));
  if (options.write == "-")
    fmt::print("{}", rules);
  else
    replace_file(options.write, rules);
}

struct Checked {
  std::vector<trace::RuleResult> results;
  std::vector<trace::FileProblem> problems;
  bool passed() const { return std::ranges::all_of(results, &trace::RuleResult::passed); }
};

void check_trace(const std::vector<trace::Rule>& rules, const trace::Trace& read, Checked& checked) {
  for (const trace::Problem& problem : read.problems) checked.problems.push_back({read.source, problem});
  for (trace::RuleResult& result : trace::check_rules(rules, read))
    checked.results.push_back(std::move(result));
}

// The file of an earlier run would tell of passes that nothing stands behind. What went wrong first is what
// is told, also where this cannot be written.
void leave_junit_error(const Options& options, const Checked& checked, const std::string& reading,
                       const char* what) {
  if (options.junit.empty()) return;
  try {
    replace_file(options.junit, trace::expect_junit(checked.results, {{reading, what}}));
  } catch (const Error&) {
  }
}

void check_all(const Options& options, Checked& checked) {
  const std::vector<std::string>& paths = options.paths;
  std::string reading = paths.front();
  try {
    EP_CHECK(paths.size() > 1, "trace expect: expected a rules file and at least one trace");
    const std::vector<trace::Rule> rules = trace::read_rules(reading);
    for (size_t i = 1; i < paths.size(); ++i) {
      const trace::Trace read = trace::read_trace(reading = paths[i]);
      if (options.format != "json") print_problems(read);
      check_trace(rules, read, checked);
    }
  } catch (const std::exception& error) {
    leave_junit_error(options, checked, reading, error.what());
    throw;
  }
}

int check(const Options& options) {
  EP_CHECK(!options.force, "trace expect: --force goes with --write");
  check_no_input(options.junit, options.paths);
  Checked checked;
  check_all(options, checked);
  if (!options.junit.empty()) replace_file(options.junit, trace::expect_junit(checked.results));
  if (options.format == "json")
    fmt::print("{}", trace::expect_json(checked.results, checked.problems));
  else
    print_text(trace::expect_text(checked.results));
  return checked.passed() ? 0 : 1;
}

}  // namespace

void add_trace_expect(Command trace, int& exit_code) {
  const Command command =
      trace.add_subcommand("expect", "hold traces against a TOML file of rules; exit 1 on a failure");
  auto options = std::make_shared<Options>();
  command.add_option("RULES", options->paths, "the rules, then traces; with --write one trace alone")
      .required()
      .shown_as("FILE...");
  command.add_option("--write", options->write,
                     "write rules that the trace passes to this new file; - is standard output");
  command.add_flag("--force", options->force, "with --write: replace a file that is there");
  command.add_option("--junit", options->junit, "also write the results as JUnit XML to this file");
  add_format_option(command, options->format);
  command.footer(
      "docs/expect.md lists the rules.\n\n"
      "Examples:\n"
      "  epilogue trace expect --write rules.toml run.json.gz\n"
      "  epilogue trace expect rules.toml run.json.gz\n"
      "  epilogue trace expect rules.toml a.json.gz b.json.gz --junit results.xml");
  command.callback([options, &exit_code] {
    if (options->write.empty())
      exit_code = check(*options);
    else
      propose(*options);
  });
}

}  // namespace epilogue::cli
