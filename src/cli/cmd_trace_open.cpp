#include <cstdio>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/output.h"
#include "trace/open.h"

namespace epilogue::cli {

void add_trace_open(Command trace, int& exit_code) {
  struct Arguments {
    std::string file;
    int seconds = 300;
  };
  auto arguments = std::make_shared<Arguments>();
  const Command open =
      trace.add_subcommand("open", "serve one trace to the Perfetto UI, from this machine alone");
  open.add_option("FILE", arguments->file, "the trace, .json or .json.gz").required();
  open.add_option("--timeout", arguments->seconds, "seconds to wait for the browser")
      .at_least(1)
      .show_default();
  open.callback([arguments, &exit_code] {
    trace::TraceServer server(arguments->file, {.timeout = std::chrono::seconds(arguments->seconds)});
    fmt::print("{}\n", server.link());
    std::fflush(stdout);
    tell("waiting for the browser to fetch it; Ctrl-C ends");
    if (server.serve()) return;
    tell(fmt::format("nobody fetched it within {} s", arguments->seconds));
    exit_code = 1;
  });
}

}  // namespace epilogue::cli
