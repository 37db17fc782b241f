// The program `epilogue`: reads the command line, runs one command, turns an Error into one line and exit
// code 2.
#include <cstdio>
#include <exception>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/output.h"
#include "epilogue/error.h"

namespace {

// One line on stderr, in place of a progress line that may stand there.
int refuse(const std::string& line) {
  epilogue::cli::progress("");
  fmt::print(stderr, "epilogue: {}\n", line);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"The transformer's MLP: run it four ways, profile it, read any Kineto trace."};
  app.name("epilogue");
  app.require_subcommand(1);
  app.set_version_flag("--version", "epilogue " EPILOGUE_VERSION);
  int exit_code = 0;
  epilogue::cli::add_profile(app, exit_code);
  epilogue::cli::add_bench(app, exit_code);
  epilogue::cli::add_verify(app, exit_code);
  epilogue::cli::add_graph(app, exit_code);
  epilogue::cli::add_cache(app, exit_code);
  epilogue::cli::add_info(app, exit_code);
  epilogue::cli::add_trace(app, exit_code);
  epilogue::cli::add_kernels(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    // "A subcommand is required" would hide the one that was misspelt.
    const auto unread =
        dynamic_cast<const CLI::RequiredError*>(&error) ? app.remaining(true) : std::vector<std::string>();
    return refuse(fmt::format("{}{}; see epilogue --help", error.what(),
                              unread.empty() ? "" : fmt::format(", got '{}'", unread.front())));
  } catch (const epilogue::Error& error) {
    return refuse(error.what());
  } catch (const std::exception& error) {
    return refuse(fmt::format("internal error: {}", error.what()));
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) return refuse("the result could not be written");
  return exit_code;
}
