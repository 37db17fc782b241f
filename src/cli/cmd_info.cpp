#include <fmt/format.h>

#include "base/env.h"
#include "base/threads.h"
#include "cli/commands.h"

namespace epilogue::cli {

void add_info(CLI::App& app, int&) {
  CLI::App* info =
      app.add_subcommand("info", "devices, instruction sets, libraries and their versions, caches");
  info->callback([] { fmt::print("threads {}\n", thread_count()); });
}

}  // namespace epilogue::cli
