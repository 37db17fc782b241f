#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/machine.h"
#include "cli/output.h"

namespace epilogue::cli {

void add_info(Command app, int&) {
  const Command command =
      app.add_subcommand("info", "devices, instruction sets, libraries and their versions");
  auto format = std::make_shared<std::string>("table");
  add_format_option(command, *format);
  command.callback(
      [format] { fmt::print("{}", *format == "json" ? machine_json() + "\n" : machine_text()); });
}

}  // namespace epilogue::cli
