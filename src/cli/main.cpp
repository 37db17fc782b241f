// The program `epilogue`: reads the command line, runs one command, turns an Error into one line and exit
// code 2.
#include <cstdio>
#include <exception>

#include <fmt/format.h>

#include "cli/commands.h"
#include "epilogue/error.h"

int main(int argc, char** argv) {
  CLI::App app{"The transformer's MLP: run it four ways, profile it, read any Kineto trace."};
  app.name("epilogue");
  app.require_subcommand(1);
  app.set_version_flag("--version", "epilogue 0.1.0");
  int exit_code = 0;
  epilogue::cli::add_profile(app, exit_code);
  epilogue::cli::add_bench(app, exit_code);
  epilogue::cli::add_verify(app, exit_code);
  epilogue::cli::add_info(app, exit_code);
  epilogue::cli::add_trace(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    // "A subcommand is required" would hide the one that was misspelt.
    const auto unread =
        dynamic_cast<const CLI::RequiredError*>(&error) ? app.remaining(true) : std::vector<std::string>();
    fmt::print(stderr, "epilogue: {}{}; see epilogue --help\n", error.what(),
               unread.empty() ? "" : fmt::format(", got '{}'", unread.front()));
    return 2;
  } catch (const epilogue::Error& error) {
    fmt::print(stderr, "epilogue: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "epilogue: internal error: {}\n", error.what());
    return 2;
  }
  return exit_code;
}
