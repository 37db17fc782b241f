// The program `epilogue`: reads the command line, runs one command, turns an Error into one line and exit
// code 2.
#include <cstdio>
#include <exception>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/output.h"
#include "epilogue/error.h"

namespace {

constexpr const char* kNotWritten = "the result could not be written";

int refuse(const std::string& line) {
  epilogue::cli::tell(line);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  epilogue::cli::CommandLine line(
      "epilogue", "The transformer's MLP: run it four ways, profile it, read any Kineto trace.",
      "epilogue " EPILOGUE_VERSION);
  int exit_code = 0;
  epilogue::cli::add_profile(line.command(), exit_code);
  epilogue::cli::add_bench(line.command(), exit_code);
  epilogue::cli::add_verify(line.command(), exit_code);
  epilogue::cli::add_graph(line.command(), exit_code);
  epilogue::cli::add_cache(line.command(), exit_code);
  epilogue::cli::add_info(line.command(), exit_code);
  epilogue::cli::add_trace(line.command(), exit_code);
  epilogue::cli::add_kernels(line.command(), exit_code);
  try {
    exit_code = line.run(argc, argv).value_or(exit_code);
  } catch (const epilogue::cli::UsageError& error) {
    return refuse(fmt::format("{}; see {} --help", error.what(), error.command));
  } catch (const epilogue::Error& error) {
    return refuse(error.what());
  } catch (const std::exception& error) {
    if (std::ferror(stdout) != 0) return refuse(kNotWritten);
    return refuse(fmt::format("internal error: {}", error.what()));
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) return refuse(kNotWritten);
  return exit_code;
}
