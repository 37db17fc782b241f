// Making a package from what its author has: package.toml and build/<variant>/.
#pragma once

#include <string>

#include "package/manifest.h"

namespace epilogue::package {

struct PackOptions {
  std::string folder;    // the author's: package.toml without `build` and [files], and build/
  std::string output;    // gets the packed folder, its .tar.gz, and both in index.json
  std::string key_file;  // "": not signed
  std::string
      build;  // "": the first digits of a hash over all files, so that the same files have the same build
};

struct Packed {
  Manifest manifest;
  std::string folder, archive;  // below output
  std::string signed_by;        // the public key; "" when not signed
};

// Variants whose folder below build/ is not there are left out, so that one package.toml serves builders that
// can make only some of them; at least one must be there. Throws Error on anything else.
Packed pack(const PackOptions& options);

}  // namespace epilogue::package
