#include <filesystem>

#include <fmt/format.h>

#include "base/blob_cache.h"
#include "base/cache_dir.h"
#include "base/check.h"
#include "base/format.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "package/cache.h"

namespace epilogue::cli {
namespace {

struct Row {
  std::string kind, what, file;
  int64_t bytes = 0;
};

int64_t bytes_below(const std::string& folder) {
  int64_t bytes = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder, error))
    if (entry.is_regular_file(error)) bytes += static_cast<int64_t>(entry.file_size(error));
  return bytes;
}

// Compiled kernels, kernel packages, then the files of tuned choices. Other files are none of ours, whatever
// folder EPILOGUE_CACHE_DIR names.
std::vector<Row> rows() {
  std::error_code none;
  EP_CHECK(!std::filesystem::exists(cache_dir(), none) || std::filesystem::is_directory(cache_dir(), none),
           "{}: is no folder, expected the one of the cache (EPILOGUE_CACHE_DIR)", cache_dir());
  std::vector<Row> found;
  for (const BlobCache::Entry& entry : BlobCache::kernels().list())
    found.push_back(
        {"kernel", entry.first_line.empty() ? "damaged" : entry.first_line, entry.file, entry.bytes});
  if (!cache_dir().empty())
    for (const package::Installed& package : package::Cache::of_user().list())
      found.push_back(
          {"package", package.reference.to_string(), package.folder, bytes_below(package.folder)});
  std::error_code error;
  for (std::filesystem::directory_iterator at(cache_dir(), error), end; !error && at != end;
       at.increment(error))
    if (at->is_regular_file() && is_choices_file(at->path().filename().string()))
      found.push_back({"choices", at->path().filename().string(), at->path().string(),
                       static_cast<int64_t>(at->file_size())});
  return found;
}

void list(const std::string& format) {
  const std::vector<Row> found = rows();
  if (format == "json") {
    std::vector<std::string> texts;
    for (const Row& row : found)
      texts.push_back(fmt::format(R"({{"kind":"{}","what":{},"file":{},"bytes":{}}})", row.kind,
                                  json_quote(row.what), json_quote(row.file), row.bytes));
    fmt::print("{{\"folder\":{},\"entries\":[{}]}}\n", json_quote(cache_dir()), fmt::join(texts, ","));
    return;
  }
  TextTable table({{"kind", false}, {"what", false}, {"size"}});
  int64_t total = 0;
  for (const Row& row : found) {
    table.add_row({row.kind, row.what, format_bytes(row.bytes)});
    total += row.bytes;
  }
  if (cache_dir().empty())
    return fmt::print("nothing is kept: there is no folder, set EPILOGUE_CACHE_DIR or HOME\n");
  fmt::print("{}{} {}, {}, in {}\n", found.empty() ? "" : table.to_string(), found.size(),
             found.size() == 1 ? "entry" : "entries", format_bytes(total), cache_dir());
}

void clear(const std::string& format) {
  const std::vector<Row> found = rows();
  int64_t freed = BlobCache::kernels().clear();
  for (const Row& row : found) {
    std::error_code ignored;
    if (row.kind != "choices") continue;  // packages: added by the user, removed by the user: kernels remove
    if (std::filesystem::remove(row.file, ignored)) freed += row.bytes;
  }
  fmt::print("{}", format == "json" ? fmt::format("{{\"freed\":{}}}\n", freed)
                                    : fmt::format("freed {} in {}\n", format_bytes(freed), cache_dir()));
}

}  // namespace

void add_cache(Command app, int&) {
  const Command command = app.add_subcommand(
      "cache", "what is kept between runs: compiled kernels, tuned choices, kernel packages");
  command.require_subcommand();
  const auto add = [&](const char* name, const char* what, void (*run)(const std::string&)) {
    const Command part = command.add_subcommand(name, what);
    auto format = std::make_shared<std::string>("table");
    add_format_option(part, *format);
    part.callback([format, run] { run(*format); });
  };
  add("list", "what, how large, where", list);
  add("clear", "remove all of it but the kernel packages, which `kernels remove` removes", clear);
}

}  // namespace epilogue::cli
