// Loading a verified package into the process.
#pragma once

#include <string>

#include "epilogue/kernel_abi.h"
#include "package/cache.h"
#include "package/manifest.h"
#include "package/verify.h"

namespace epilogue::package {

struct LoadOptions {
  Device device{};
  std::string lock_file;  // pins the build where the file exists; "": none
};

struct Loaded {
  KnownManifest known;
  const Variant* variant;  // of the manifest
  const EpPackage* package;

  // Null when the library has none, though the manifest says so.
  const EpKernel* kernel(std::string_view op, DType dtype) const;
};

// The package in the cache: the locked build where there is a lock file, otherwise the selected one.
// Throws Error when a lock file does not pin it or pins what is not there.
Installed find_package(const Cache& cache, const Reference& reference, const std::string& lock_file);

// Finds the package, compares every file with its hash, asks the policy, chooses the variant and loads its
// library: the very bytes that were compared. Everything is checked anew at each call; the library itself
// stays loaded for the rest of the process. Throws Error with the reason, and nothing of the package has run
// then but for a handshake that failed.
Loaded load_package(const Cache& cache, const Reference& reference, const Policy& policy,
                    const LoadOptions& options);

}  // namespace epilogue::package
