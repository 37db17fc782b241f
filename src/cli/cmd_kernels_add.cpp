// kernels add, which alone fetches anything, and kernels pack.
#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "base/format.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "epilogue/device.h"
#include "package/pack.h"
#include "package/resolve.h"
#include "package/source.h"
#include "package/verify.h"

namespace epilogue::cli {
namespace {

// "[=========>          ] 48%  1.20 MiB of 2.50 MiB", redrawn ten times a second.
class ProgressBar {
 public:
  void show(uint64_t done, uint64_t total) {
    const auto now = std::chrono::steady_clock::now();
    if (done < total && now - last_ < std::chrono::milliseconds(100)) return;
    last_ = now;
    constexpr uint64_t kWidth = 40;
    const uint64_t filled = total ? done * kWidth / total : kWidth;
    progress(fmt::format("[{:=>{}}>{:{}}] {}%  {} of {}", "", filled, "", kWidth - filled,
                         total ? done * 100 / total : 100, format_bytes(static_cast<int64_t>(done)),
                         format_bytes(static_cast<int64_t>(total))));
  }

 private:
  std::chrono::steady_clock::time_point last_{};
};

// On this machine's processor or its GPU. It is added in any case.
bool runs_here(const package::Manifest& manifest) try {
  std::vector<Device> devices{Device{}};
  if (device_count(DeviceType::cuda) > 0) devices.push_back({DeviceType::cuda, 0});
  return std::ranges::any_of(devices, [&](Device device) {
    return std::ranges::any_of(resolve(manifest, package::this_machine(device)), &package::Choice::taken);
  });
} catch (const Error& error) {
  tell(error.what());
  return true;  // not known
}

void run_add(const std::string& source, const std::string& name, const std::string& format) {
  package::Cache cache = package::Cache::of_user();
  const package::Policy policy = package::user_policy();
  std::optional<package::Reference> reference;
  if (!name.empty()) reference = package::parse_reference(name);
  ProgressBar bar;
  const package::Added added = package::add_from(
      cache, source, reference, policy, [&bar](uint64_t done, uint64_t total) { bar.show(done, total); });
  progress("");
  const package::KnownManifest& known = added.known;
  const uint64_t bytes = known.manifest.unpacked_bytes();
  if (format == "json")
    fmt::print("{{\"added\":{},\"build\":{},\"manifest\":\"{}\",\"bytes\":{},\"signature\":{}}}\n",
               json_quote(added.reference.to_string()), json_quote(known.manifest.build), added.digest, bytes,
               json_quote(known.signature_text()));
  else
    fmt::print("added {} build {}, {}, {}\n", added.reference.to_string(), known.manifest.build,
               format_bytes(static_cast<int64_t>(bytes)), known.signature_text());
  if (!runs_here(known.manifest))
    tell(fmt::format("none of its variants runs here: epilogue kernels explain {} [--device cuda] tells why",
                     added.reference.to_string()));
}

void run_pack(const package::PackOptions& options, const std::string& format) {
  const package::Packed packed = package::pack(options);
  if (format == "json") {
    fmt::print("{{\"archive\":{},\"variants\":{},\"signed_by\":{}}}\n", json_quote(packed.archive),
               json_quoted_list(packed.manifest.variant_names()),
               packed.signed_by.empty() ? "null" : json_quote(packed.signed_by));
    return;
  }
  fmt::print("{}\n", packed.archive);
  for (const std::string& variant : packed.manifest.variant_names()) fmt::print("  {}\n", variant);
  fmt::print("  {}\n", packed.signed_by.empty() ? "not signed" : "signed by the key " + packed.signed_by);
}

}  // namespace

void add_kernels_add(Command kernels) {
  const Command command = kernels.add_subcommand("add", "verify a package and put it into the cache");
  auto source = std::make_shared<std::string>(), name = std::make_shared<std::string>();
  auto format = std::make_shared<std::string>("table");
  command.add_option("SOURCE", *source, "a folder, a .tar.gz, or the http address of an index").required();
  command.add_option("NAME", *name, "NAME@VERSION; needed where an index has several");
  add_format_option(command, *format);
  command.footer("Example:\n  epilogue kernels add http://127.0.0.1:8000/ epilogue/geglu@1");
  command.callback([source, name, format] { run_add(*source, *name, *format); });
}

void add_kernels_pack(Command kernels) {
  const Command command =
      kernels.add_subcommand("pack", "make a package of package.toml and build/<variant>/");
  auto options = std::make_shared<package::PackOptions>();
  command.add_option("FOLDER", options->folder, "what its author wrote and built").required();
  command.add_option("--output", options->output, "gets the package and index.json, to be served").required();
  command.add_option("--key", options->key_file, "an Ed25519 private key in PEM to sign with");
  command.add_option("--build", options->build, "the build's name; default: from the hash of its files");
  auto format = std::make_shared<std::string>("table");
  add_format_option(command, *format);
  command.callback([options, format] { run_pack(*options, *format); });
}

}  // namespace epilogue::cli
