#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "base/format.h"
#include "cli/commands.h"
#include "cli/golden.h"
#include "cli/output.h"
#include "cli/problem.h"

namespace epilogue::cli {
namespace {

std::string to_json(const std::vector<Verified>& all, Device device) {
  std::vector<std::string> rows;
  for (const Verified& v : all)
    rows.push_back(fmt::format(
        R"({{"file":{},"mode":"{}","device":"{}","max_error":{},"allowed":{},"passed":{},"note":{}}})",
        json_quote(v.file), v.mode, device_name(device),
        std::isfinite(v.max_error) ? fmt::format("{:.6g}", v.max_error) : "null",
        fmt::format("{:.6g}", v.allowed), v.passed(), v.note.empty() ? "null" : json_quote(v.note)));
  return fmt::format("{{\"files\":[{}]}}\n", fmt::join(rows, ","));
}

std::string to_table(const std::vector<Verified>& all) {
  TextTable table({{"file", false}, {"mode", false}, {"largest error"}, {"allowed"}, {"result", false}});
  for (const Verified& v : all)
    table.add_row({v.file, v.mode, fmt::format("{:.3e}", v.max_error), fmt::format("{:.3e}", v.allowed),
                   v.passed() ? "passed" : "FAILED"});
  return table.to_string();
}

// Each with the files that it holds for.
std::string notes_text(const std::vector<Verified>& all) {
  std::string text;
  std::set<std::string> told{""};
  for (const Verified& v : all) {
    if (!told.insert(v.note).second) continue;
    std::vector<std::string> files;
    for (const Verified& other : all)
      if (other.note == v.note) files.push_back(other.file);
    text += fmt::format("{}: {}\n", fmt::join(files, ", "), v.note);
  }
  return text;
}

struct Options {
  std::vector<std::string> files;
  std::string device = "cpu", modes = "all", format = "table";
};

}  // namespace

void add_verify(Command app, int& exit_code) {
  const Command command = app.add_subcommand("verify", "compare the layers with golden files");
  auto options = std::make_shared<Options>();
  command.add_option("FILE", options->files, "golden files (.safetensors)").required();
  command.add_option("--device", options->device, "cpu or cuda[:N]").show_default();
  command.add_option("--mode", options->modes, "a mode, several with commas, or all").show_default();
  add_format_option(command, options->format);
  command.footer(
      "A result passes when its largest error against y_f64 is at most twice that of y_torch, plus 1e-6.\n"
      "Example:\n  epilogue verify tests/data/golden/*.safetensors");
  command.callback([options, &exit_code] {
    const Device device = device_from_name(options->device);
    std::vector<Verified> all;
    for (const nn::Mode mode : modes_from_list(options->modes))
      for (const std::string& file : options->files)
        all.push_back(verify_golden(file, {.mode = mode, .device = device}));
    fmt::print("{}", options->format == "json" ? to_json(all, device) : to_table(all) + notes_text(all));
    const auto failed = std::count_if(all.begin(), all.end(), [](const Verified& v) { return !v.passed(); });
    if (options->format != "json")
      fmt::print("{} passed, {} failed\n", all.size() - static_cast<size_t>(failed), failed);
    exit_code = failed ? 1 : 0;
  });
}

}  // namespace epilogue::cli
