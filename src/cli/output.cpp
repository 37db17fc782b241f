#include "cli/output.h"

#include <cstdio>

#include <unistd.h>

#include <fmt/format.h>

namespace epilogue::cli {

void add_format_option(Command command, std::string& format) {
  command.add_option("--format", format, "table or json").one_of({"table", "json"}).show_default();
}

void print_problems(const trace::Trace& trace) {
  for (const trace::Problem& problem : trace.problems)
    fmt::print(stderr, "{}: {}: {}\n", trace.source, problem.what, problem.count);
}

void tell(std::string_view line) {
  progress("");
  fmt::print(stderr, "epilogue: {}\n", line);
}

void progress(std::string_view text) {
  static const bool terminal = isatty(STDERR_FILENO) != 0;
  if (terminal) fmt::print(stderr, "\r\033[K{}", text);
}

}  // namespace epilogue::cli
