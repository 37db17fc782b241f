// The folder of added packages. It only ever holds whole packages that were verified: each is unpacked beside
// it, verified, flushed and then renamed into place, so that neither a crash nor a full disk nor a second
// process leaves a part of one.
#pragma once

#include <string>
#include <vector>

#include "package/name.h"
#include "package/policy.h"
#include "package/verify.h"

namespace epilogue::package {

// A package in the cache. Its folder is called by the SHA-256 of its package.toml.
struct Installed {
  Reference reference;
  std::string digest;
  std::string folder;
  bool selected = false;  // of several builds the one added last: what is used without a lock file
};

// With what its manifest said then: another process may remove it at once.
struct Added : Installed {
  KnownManifest known;
};

// As read_manifest(), and throws Error where it is of another package than its place in the cache says.
KnownManifest read_manifest(const Installed& installed, const Policy* policy);

class Cache {
 public:
  explicit Cache(std::string root);  // not made before something is added
  static Cache of_user();            // packages/ in EPILOGUE_CACHE_DIR or its default

  const std::string& root() const { return root_; }
  std::string downloads() const { return root_ + "/downloads"; }

  // Copies, verifies and selects a package from its folder or its .tar.gz. One that is there already is kept,
  // or mended when it is damaged. `expected` is what it must be: "" takes any name, 0 any version. Throws
  // Error with the reason, and then the cache is as it was.
  Added add(const std::string& folder_or_archive, const Reference& expected, const Policy& policy);

  std::vector<Installed> list() const;
  // The build with this digest, or the selected one for "". Throws Error that says how to get it.
  Installed find(const Reference& reference, const std::string& digest = "") const;
  // Every build of that version. Throws Error when there is none.
  void remove(const Reference& reference);

 private:
  std::string version_folder(const Reference& reference) const;
  std::string selected_digest(const Reference& reference) const;
  Added unpack_and_put(const std::string& source, const Reference& expected, const Policy& policy);
  Installed put(const std::string& unpacked, const Reference& reference, const std::string& digest);

  std::string root_;
};

}  // namespace epilogue::package
