#include "cli/output.h"

#include <cstdio>

#include <unistd.h>

#include <fmt/format.h>

namespace epilogue::cli {

void add_format_option(CLI::App& command, std::string& format) {
  command.add_option("--format", format, "table or json")
      ->check(CLI::IsMember({"table", "json"}))
      ->capture_default_str();
}

void print_problems(const trace::Trace& trace) {
  for (const trace::Problem& problem : trace.problems)
    fmt::print(stderr, "{}: {}: {}\n", trace.source, problem.what, problem.count);
}

void progress(std::string_view text) {
  static const bool terminal = isatty(STDERR_FILENO) != 0;
  if (terminal) fmt::print(stderr, "\r\033[K{}", text);
}

}  // namespace epilogue::cli
