// The program `epilogue`: reads the command line, runs one command, turns an Error into one line and exit
// code 2.
#include <cstdio>
#include <exception>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/env.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "epilogue/error.h"

namespace {

constexpr const char* kNotWritten = "the result could not be written";

int refuse(const std::string& line) {
  epilogue::cli::tell(line);
  return 2;
}

// A file that is opened while a standard stream is closed takes its number, and lines for the stream would
// land in it. What is opened here cannot be written: a result that goes nowhere is told as before.
void keep_standard_streams() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd)
    if (::fcntl(fd, F_GETFD) < 0) (void)!::open("/dev/null", O_RDONLY);
}

}  // namespace

int main(int argc, char** argv) {
  keep_standard_streams();
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
  for (const std::string& name : epilogue::unknown_variables())
    epilogue::cli::tell(
        fmt::format("{}: there is no such variable; epilogue info lists those that are", name));
  return exit_code;
}
