// kernels.lock: which build of each package a project uses, down to the hash of each file.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "package/manifest.h"

namespace epilogue::package {

inline constexpr const char* kLockFile = "kernels.lock";

struct LockedPackage {
  Reference reference;
  std::string build;
  std::string digest;                        // of package.toml
  std::map<std::string, std::string> files;  // SHA-256 by path, as the manifest lists them
};

struct LockFile {
  std::string path;  // where it was read, for messages
  std::vector<LockedPackage> packages;

  const LockedPackage* find(const Reference& reference) const;  // null: not pinned
  void set(LockedPackage package);
  std::string to_text() const;  // sorted: the same packages give the same text
};

LockedPackage lock_package(const Manifest& manifest, const std::string& digest);

// Throws Error naming `source` and what is wrong.
LockFile parse_lock(std::string_view text, const std::string& source);
// Nothing where there is no such file.
std::optional<LockFile> read_lock(const std::string& path);

// Throws Error when the manifest is not the one that was locked, naming what differs.
void check_locked(const LockedPackage& locked, const Manifest& manifest, const std::string& lock_path);

}  // namespace epilogue::package
