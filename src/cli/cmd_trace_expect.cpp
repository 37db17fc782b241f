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
  std::vector<trace::UnreadInput> unread;
  bool passed() const { return std::ranges::all_of(results, &trace::RuleResult::passed); }
};

void check_trace(const std::vector<trace::Rule>& rules, const trace::Trace& read, Checked& checked) {
  for (const trace::Problem& problem : read.problems) checked.problems.push_back({read.source, problem});
  for (trace::RuleResult& result : trace::check_rules(rules, read))
    checked.results.push_back(std::move(result));
}

// The file of an earlier run would tell of passes that nothing stands behind.
void write_junit(const Options& options, const Checked& checked) {
  if (!options.junit.empty())
    replace_file(options.junit, trace::expect_junit(checked.results, checked.unread));
}

std::vector<trace::Rule> rules_of(const Options& options, Checked& checked) try {
  EP_CHECK(options.paths.size() > 1, "trace expect: expected a rules file and at least one trace");
  return trace::read_rules(options.paths.front());
} catch (const std::exception& error) {
  checked.unread.push_back({options.paths.front(), error.what()});
  try {
    write_junit(options, checked);
  } catch (const Error&) {  // what went wrong first is what is told
  }
  throw;
}

// A trace that cannot be read does not keep the others from being checked.
int check(const Options& options) {
  EP_CHECK(!options.force, "trace expect: --force goes with --write");
  check_no_input(options.junit, options.paths);
  Checked checked;
  const std::vector<trace::Rule> rules = rules_of(options, checked);
  for (size_t i = 1; i < options.paths.size(); ++i) try {
      const trace::Trace read = trace::read_trace(options.paths[i]);
      if (options.format != "json") print_problems(read);
      check_trace(rules, read, checked);
    } catch (const std::exception& error) {
      checked.unread.push_back({options.paths[i], error.what()});
    }
  if (options.format == "json")
    fmt::print("{}", trace::expect_json(checked.results, checked.problems, checked.unread));
  else if (!checked.results.empty())
    print_text(trace::expect_text(checked.results));
  for (const trace::UnreadInput& input : checked.unread) tell(input.why);
  write_junit(options, checked);
  if (!checked.unread.empty()) return 2;  // as main() does
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
  command.add_option("--junit", options->junit, "also write the results as JUnit XML to this file")
      .not_empty();
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
