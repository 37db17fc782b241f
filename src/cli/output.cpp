#include "cli/output.h"

#include <cstdio>
#include <filesystem>
#include <system_error>

#include <unistd.h>

#include <fmt/format.h>

#include "base/check.h"
#include "base/format.h"

namespace epilogue::cli {
namespace {

// What stderr does not take is lost, and the exit code stays: fmt::print would throw where it is closed or
// full. What stdout still holds goes first: in a log of both, a line would stand in the middle of a table's.
void say(const std::string& text) {
  std::fflush(stdout);
  (void)!std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace

void add_format_option(Command command, std::string& format) {
  command.add_option("--format", format, "table or json").one_of({"table", "json"}).show_default();
}

void print_problems(const trace::Trace& trace) {
  for (const trace::Problem& problem : trace.problems)
    say(fmt::format("{}: {}: {}\n", trace.source, problem.what, problem.count));
}

void print_text(std::string_view text) { fmt::print("{}", printable(text)); }

void check_no_input(const std::string& output, const std::vector<std::string>& inputs) {
  for (const std::string& input : inputs) {
    std::error_code not_there;
    EP_CHECK(!std::filesystem::equivalent(output, input, not_there),
             "{}: is read by this command, so it cannot be written to", output);
  }
}

void check_page_name(std::string_view option, std::string_view path) {
  EP_CHECK(path.ends_with(".html") || path.ends_with(".htm"), "{}: expected FILE.html, got {}", option, path);
}

void tell(std::string_view line) {
  progress("");
  say(fmt::format("epilogue: {}\n", printable(line)));
}

void progress(std::string_view text) {
  static const bool terminal = isatty(STDERR_FILENO) != 0;
  if (terminal) say(fmt::format("\r\033[K{}", text));
}

}  // namespace epilogue::cli
