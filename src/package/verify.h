// Whether a package's folder holds exactly what its manifest promises.
#pragma once

#include <string>
#include <vector>

#include "package/manifest.h"
#include "package/policy.h"

namespace epilogue::package {

// package.toml, known by its SHA-256, which so stands for the whole package.
struct KnownManifest {
  Manifest manifest;
  std::string digest;     // of package.toml
  std::string signed_by;  // the key in hex; "" without a signature
  bool trusted = false;   // the policy trusts that key for this package

  std::string signature_text()
      const;  // "signed by a trusted key", "signed by a key not trusted", "not signed"
};

// Reads package.toml and package.sig of `folder`. Throws Error naming the file when one is damaged, when the
// digest is not `expected` ("": any), when the signature does not hold, or when the policy wants one that is
// not there. `policy` null: no policy, for packages that are only being described.
KnownManifest read_manifest(const std::string& folder, const std::string& expected, const Policy* policy);

// Compares size and SHA-256 of every file, and that there is no other. Throws Error with the name of the
// first file that differs. Returns the content of the file `keep` ("": none) as it was compared.
std::string verify_files(const std::string& folder, const Manifest& manifest, const std::string& keep = "");

}  // namespace epilogue::package
