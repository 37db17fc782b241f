#include "package/lock_file.h"

#include <algorithm>
#include <filesystem>

#include "base/check.h"
#include "package/digest.h"
#include "package/files.h"
#include "package/toml.h"

namespace epilogue::package {
namespace {

constexpr int64_t kFormat = 1;

LockedPackage read_package(const TomlTable& table) {
  table.allow({"name", "version", "build", "manifest", "files"});
  LockedPackage package{
      .reference = {table.text("name"), static_cast<uint32_t>(table.number("version", 1, UINT32_MAX))},
      .build = table.text("build"),
      .digest = table.text("manifest")};
  if (!is_package_name(package.reference.name)) table.refuse("'name': expected OWNER/NAME");
  if (!is_plain_word(package.build)) table.refuse("'build': expected a word");
  if (!is_hex(package.digest, 32)) table.refuse("'manifest': expected a SHA-256 in lower-case hex");
  const TomlTable files(table.table("files"), table.where() + ": files");
  for (const auto& [path, node] : table.table("files")) {
    if (!path_problem(path.str()).empty()) files.refuse("a path is refused: {}", path_problem(path.str()));
    std::string digest = files.text(path.str());
    if (!is_hex(digest, 32)) files.refuse("'{}': expected a SHA-256 in lower-case hex", path.str());
    package.files.emplace(path.str(), std::move(digest));
  }
  return package;
}

}  // namespace

const LockedPackage* LockFile::find(const Reference& reference) const {
  const auto found = std::ranges::find(packages, reference, &LockedPackage::reference);
  return found == packages.end() ? nullptr : &*found;
}

void LockFile::set(LockedPackage package) {
  std::erase_if(packages, [&](const LockedPackage& p) { return p.reference == package.reference; });
  packages.push_back(std::move(package));
  std::ranges::sort(packages, {},
                    [](const LockedPackage& p) { return std::pair(p.reference.name, p.reference.version); });
}

std::string LockFile::to_text() const {
  std::string text = fmt::format(
      "# The kernel packages of this project, written by `epilogue kernels lock`.\nformat = {}\n", kFormat);
  for (const LockedPackage& p : packages) {
    text += fmt::format("\n[[package]]\nname = \"{}\"\nversion = {}\nbuild = \"{}\"\nmanifest = \"{}\"\n",
                        p.reference.name, p.reference.version, p.build, p.digest);
    text += "[package.files]\n";
    for (const auto& [file, digest] : p.files) text += fmt::format("'{}' = \"{}\"\n", file, digest);
  }
  return text;
}

LockedPackage lock_package(const Manifest& manifest, const std::string& digest) {
  LockedPackage package{manifest.reference, manifest.build, digest, {}};
  for (const auto& [path, file] : manifest.files) package.files.emplace(path, file.sha256);
  return package;
}

LockFile parse_lock(std::string_view text, const std::string& source) {
  const toml::table table = parse_toml(text, source);
  const TomlTable root(table, source);
  root.number("format", kFormat, kFormat);
  root.allow({"format", "package"});
  LockFile lock{.path = source};
  for (const TomlTable& package : root.tables("package")) {
    LockedPackage read = read_package(package);
    if (lock.find(read.reference)) root.refuse("{} is there twice", read.reference.to_string());
    lock.packages.push_back(std::move(read));
  }
  return lock;
}

std::optional<LockFile> read_lock(const std::string& path) {
  std::error_code error;
  if (path.empty() || !std::filesystem::exists(path, error)) return {};
  return parse_lock(read_file(std::filesystem::weakly_canonical(path, error), 64 * kMaxManifestBytes), path);
}

void check_locked(const LockedPackage& locked, const Manifest& manifest, const std::string& lock_path) {
  const std::string name = locked.reference.to_string();
  EP_CHECK(locked.build == manifest.build, "{}: {} is locked to build {}, found build {}", lock_path, name,
           locked.build, manifest.build);
  for (const auto& [path, file] : manifest.files) {
    const auto found = locked.files.find(path);
    EP_CHECK(found != locked.files.end() && found->second == file.sha256,
             "{}: {} is locked to another content of {}", lock_path, name, path);
  }
  EP_CHECK(locked.files.size() == manifest.files.size(),
           "{}: {} is locked with files that the package has not", lock_path, name);
}

}  // namespace epilogue::package
