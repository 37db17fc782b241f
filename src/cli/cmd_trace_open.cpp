#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/format.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "trace/open.h"

namespace epilogue::cli {

void add_trace_open(Command trace, int& exit_code) {
  struct Arguments {
    std::vector<std::string> files;
    int seconds = 300;
    std::string format = "table";
  };
  auto arguments = std::make_shared<Arguments>();
  const Command open =
      trace.add_subcommand("open", "serve traces to the Perfetto UI, from this machine alone");
  open.add_option("FILE", arguments->files, "traces, .json or .json.gz: each is a link of its own")
      .required();
  open.add_option("--timeout", arguments->seconds, "seconds to wait for the browser")
      .at_least(1)
      .show_default();
  add_format_option(open, arguments->format);
  open.callback([arguments, &exit_code] {
    trace::TraceServer server(arguments->files, {.timeout = std::chrono::seconds(arguments->seconds)});
    const std::vector<std::string> links = server.links();
    fmt::print("{}", arguments->format == "json" ? fmt::format("{{\"links\":{}}}\n", json_quoted_list(links))
                                                 : fmt::format("{}\n", fmt::join(links, "\n")));
    std::fflush(stdout);
    tell(fmt::format("waiting for the browser to fetch {}; Ctrl-C ends", links.size() == 1 ? "it" : "them"));
    if (server.serve()) return;
    tell(fmt::format("nobody fetched {} within {} s", links.size() == 1 ? "it" : "all of them",
                     arguments->seconds));
    exit_code = 1;
  });
}

}  // namespace epilogue::cli
