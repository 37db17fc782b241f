// kernels list, verify, lock, remove, explain: what is in the cache.
#include <filesystem>

#include <fmt/format.h>

#include "base/check.h"
#include "base/format.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "package/files.h"
#include "package/load.h"
#include "package/lock_file.h"
#include "package/resolve.h"

namespace epilogue::cli {
namespace {

using package::Cache;
using package::Installed;
using package::KnownManifest;

struct Options {
  std::vector<std::string> names;
  std::string lock_file = package::kLockFile, device = "cpu", format = "table";
  bool json() const { return format == "json"; }
};

std::string rows_json(const char* key, const std::vector<std::string>& rows) {
  return fmt::format("{{\"{}\":[{}]}}\n", key, fmt::join(rows, ","));
}

// Those that `names` tell (NAME or NAME@VERSION), all for none. Throws Error on a name that is not there.
std::vector<Installed> chosen(const Cache& cache, const std::vector<std::string>& names) {
  const std::vector<Installed> all = cache.list();
  if (names.empty()) return all;
  std::vector<Installed> found;
  for (const std::string& name : names) {
    const size_t before = found.size();
    for (const Installed& installed : all)
      if (installed.reference.name == name || installed.reference.to_string() == name)
        found.push_back(installed);
    EP_CHECK(found.size() > before, "kernel package {} is not in the cache {}", name, cache.root());
  }
  return found;
}

struct Listed {
  Installed installed;
  KnownManifest known;
  std::string problem;  // "" when package.toml is as it should be
};

Listed describe(const Installed& installed, const package::Policy& policy) {
  package::Policy lenient = policy;
  lenient.require_signature = false;  // to be told, not refused
  try {
    return {installed, read_manifest(installed, &lenient), ""};
  } catch (const Error& error) {
    return {installed, {}, error.what()};
  }
}

std::string listed_json(const Listed& l) {
  const package::Manifest& m = l.known.manifest;
  return fmt::format(
      R"({{"name":"{}","version":{},"build":{},"manifest":"{}","selected":{},"license":{},"variants":{},"signature":{},"bytes":{},"problem":{}}})",
      l.installed.reference.name, l.installed.reference.version, json_quote(m.build), l.installed.digest,
      l.installed.selected, json_quote(m.license), json_quoted_list(m.variant_names()),
      json_quote(l.known.signature_text()), m.unpacked_bytes(),
      l.problem.empty() ? "null" : json_quote(l.problem));
}

void list(const Options& options) {
  const Cache cache = Cache::of_user();
  const package::Policy policy = package::user_policy();
  TextTable table(
      {{"package", false}, {"build", false}, {"variants"}, {"size"}, {"signature", false}, {"note", false}});
  std::vector<std::string> rows;
  for (const Installed& installed : cache.list()) {
    const Listed l = describe(installed, policy);
    rows.push_back(listed_json(l));
    const package::Manifest& m = l.known.manifest;
    const char* note = installed.selected ? "" : "an earlier build";
    table.add_row({installed.reference.to_string(), m.build, std::to_string(m.variants.size()),
                   format_bytes(static_cast<int64_t>(m.unpacked_bytes())), l.known.signature_text(),
                   l.problem.empty() ? note : l.problem});
  }
  if (options.json())
    fmt::print("{}", rows_json("packages", rows));
  else if (rows.empty())
    fmt::print("no kernel package in {}\n", cache.root());
  else
    fmt::print("{}", table.to_string());
}

std::string problem_with(const Installed& installed, const package::Policy& policy,
                         const std::string& lock_file) {
  try {
    const KnownManifest known = read_manifest(installed, &policy);
    verify_files(installed.folder, known.manifest);
    const auto lock = package::read_lock(lock_file);
    const package::LockedPackage* locked = lock ? lock->find(installed.reference) : nullptr;
    if (locked && locked->digest == installed.digest) check_locked(*locked, known.manifest, lock_file);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

// Whether it still is there: another process may have removed it meanwhile.
bool is_there(const Installed& installed) {
  std::error_code error;
  return std::filesystem::exists(installed.folder, error);
}

// The exit code: 1 when a package is damaged, or one that the lock file pins is not there.
int verify(const Options& options) {
  const Cache cache = Cache::of_user();
  const package::Policy policy = package::user_policy();
  TextTable table({{"package", false}, {"package.toml", false}, {"result", false}});
  std::vector<std::string> rows;
  int failed = 0;
  const auto add = [&](const package::Reference& reference, const std::string& digest,
                       const std::string& problem) {
    failed += problem.empty() ? 0 : 1;
    rows.push_back(fmt::format(R"({{"package":"{}","manifest":"{}","passed":{},"problem":{}}})",
                               reference.to_string(), digest, problem.empty(),
                               problem.empty() ? "null" : json_quote(problem)));
    table.add_row(
        {reference.to_string(), digest.substr(0, 12), problem.empty() ? "passed" : "FAILED: " + problem});
  };
  for (const Installed& installed : chosen(cache, options.names)) {
    const std::string problem = problem_with(installed, policy, options.lock_file);
    if (problem.empty() || is_there(installed)) add(installed.reference, installed.digest, problem);
  }
  if (const auto lock = package::read_lock(options.lock_file); lock && options.names.empty())
    for (const package::LockedPackage& locked : lock->packages) try {
        cache.find(locked.reference, locked.digest);
      } catch (const Error& error) {
        add(locked.reference, locked.digest, error.what());
      }
  if (options.json())
    fmt::print("{}", rows_json("packages", rows));
  else if (rows.empty())
    fmt::print("nothing to verify: no kernel package in {}\n", cache.root());
  else
    fmt::print("{}{} passed, {} failed\n", table.to_string(), rows.size() - static_cast<size_t>(failed),
               failed);
  return failed ? 1 : 0;
}

// Only what is whole is pinned.
void lock(const Options& options) {
  const Cache cache = Cache::of_user();
  const package::Policy policy = package::user_policy();
  package::LockFile lock = package::read_lock(options.lock_file).value_or(package::LockFile{});
  std::vector<std::string> pinned, rows;
  for (const Installed& installed : chosen(cache, options.names)) {
    if (!installed.selected) continue;
    KnownManifest known;
    try {
      known = read_manifest(installed, &policy);
      verify_files(installed.folder, known.manifest);
    } catch (const Error&) {
      if (is_there(installed)) throw;
      continue;
    }
    lock.set(lock_package(known.manifest, installed.digest));
    pinned.push_back(
        fmt::format("{} locked to build {}\n", installed.reference.to_string(), known.manifest.build));
    rows.push_back(fmt::format(R"({{"package":"{}","build":{},"manifest":"{}"}})",
                               installed.reference.to_string(), json_quote(known.manifest.build),
                               installed.digest));
  }
  EP_CHECK(!pinned.empty(), "there is no kernel package in {} to lock; add one first", cache.root());
  replace_file(options.lock_file, lock.to_text());
  fmt::print("{}", options.json() ? rows_json("locked", rows) : fmt::format("{}", fmt::join(pinned, "")));
}

void explain(const Options& options) {
  const Cache cache = Cache::of_user();
  const package::Machine machine = package::this_machine(device_from_name(options.device));
  const package::Policy policy = package::user_policy();
  TextTable table(
      {{"package", false}, {"build", false}, {"variant", false}, {"verdict", false}, {"because", false}});
  std::vector<std::string> rows;
  for (const Installed& installed : chosen(cache, options.names)) {
    const KnownManifest known = read_manifest(installed, &policy);
    for (const package::Choice& choice : resolve(known.manifest, machine)) {
      const bool taken = choice.taken() && installed.selected;
      const bool earlier = choice.taken() && !installed.selected;
      const char* verdict = package::verdict_name(earlier ? package::Verdict::passed_over : choice.verdict);
      const std::string reason =
          earlier ? "another build of this version was added later; a lock file may pin this one"
                  : choice.reason;
      table.add_row(
          {installed.reference.to_string(), known.manifest.build, choice.variant->name, verdict, reason});
      rows.push_back(fmt::format(
          R"({{"package":"{}","build":"{}","device":"{}","variant":"{}","taken":{},"verdict":"{}","reason":{}}})",
          installed.reference.to_string(), known.manifest.build, device_name(machine.device),
          choice.variant->name, taken, verdict, json_quote(reason)));
    }
  }
  fmt::print("{}", options.json() ? rows_json("variants", rows) : table.to_string());
}

void remove(const Options& options) {
  std::vector<std::string> removed;
  const auto tell_removed = [&] {
    if (options.json()) fmt::print("{{\"removed\":{}}}\n", json_quoted_list(removed));
  };
  try {
    for (const std::string& name : options.names) {
      Cache::of_user().remove(package::parse_reference(name));
      removed.push_back(name);
      if (!options.json()) fmt::print("removed {}\n", name);
    }
  } catch (const Error&) {
    if (!removed.empty()) tell_removed();
    throw;
  }
  tell_removed();
}

template <class Run>
void add_command(Command kernels, const char* name, const char* what, const char* names, bool required,
                 Run run) {
  const Command command = kernels.add_subcommand(name, what);
  auto options = std::make_shared<Options>();
  const std::string_view verb = name;
  if (names) command.add_option("NAME", options->names, names).required(required);
  if (verb == "verify" || verb == "lock")
    command.add_option("--lock-file", options->lock_file, "the project's pins").show_default();
  if (verb == "explain") command.add_option("--device", options->device, "cpu or cuda[:N]").show_default();
  add_format_option(command, options->format);
  command.callback([options, run] { run(*options); });
}

}  // namespace

void add_kernels(Command app, int& exit_code) {
  const Command kernels =
      app.add_subcommand("kernels", "prebuilt kernels: add, pin, verify and test packages of them");
  kernels.require_subcommand();
  add_kernels_add(kernels);
  add_command(kernels, "list", "the packages in the cache", nullptr, false, list);
  add_command(kernels, "verify", "compare every file with its hash", "NAME[@VERSION]; default: all", false,
              [&exit_code](const Options& options) { exit_code = verify(options); });
  add_command(kernels, "lock", "pin packages in kernels.lock", "NAME[@VERSION]; default: all", false, lock);
  add_command(kernels, "remove", "remove packages from the cache", "NAME@VERSION", true, remove);
  add_command(kernels, "explain", "every variant, and why it is taken, passed over or refused here",
              "NAME[@VERSION]", true, explain);
  add_kernels_test(kernels, exit_code);
  add_kernels_pack(kernels);
}

}  // namespace epilogue::cli
