// package.toml: what a package is, what it provides, for which machines, and the hash of each of its files.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "epilogue/tensor.h"
#include "package/name.h"

namespace epilogue::package {

inline constexpr const char* kManifestFile = "package.toml";
inline constexpr const char* kSignatureFile = "package.sig";

// An op it has kernels for, and what they take.
struct ProvidedOp {
  std::string name;  // as in epilogue/kernel_abi.h: "gelu_tanh_mul"
  std::vector<DType> dtypes;
  int64_t max_elements = INT64_MAX;  // of the output
};

// A layer whose implementation it can replace, by these of its ops.
struct ProvidedLayer {
  std::string name;  // "GatedMlp"
  std::vector<std::string> ops;
};

// One build of the kernels: the files below build/<name>/.
struct Variant {
  std::string name;            // "linux-x86_64-cpu-avx2"
  std::string system;          // "linux"
  std::string arch;            // "x86_64", "aarch64"
  std::string backend;         // "cpu" or "cuda"
  std::string isa;             // cpu: "scalar", "avx2", "avx512"; else empty
  int64_t cuda = 0;            // cuda: the toolkit's major version
  std::vector<int64_t> archs;  // cuda: compute capabilities with machine code, 90 for 9.0
  uint32_t abi = 0;
  std::string library;  // the file to load, in build/<name>/

  std::string folder() const { return "build/" + name + "/"; }
};

struct PackageFile {
  uint64_t size = 0;
  std::string sha256;
};

struct Manifest {
  Reference reference;
  std::string build;  // unique per build
  std::string license, description;
  std::vector<ProvidedOp> ops;
  std::vector<ProvidedLayer> layers;
  std::vector<Variant> variants;
  std::map<std::string, PackageFile> files;  // all but package.toml and package.sig
  bool is_signed = false;                    // package.sig must be there

  uint64_t unpacked_bytes() const;
  std::vector<std::string> variant_names() const;
  const ProvidedOp* op(std::string_view name) const;  // null: not provided
  const ProvidedLayer* layer(std::string_view name) const;
};

// What a package may weigh: more is refused before it is read.
inline constexpr uint64_t kMaxManifestBytes = 1 << 20, kMaxPackageBytes = uint64_t{1} << 30;
inline constexpr size_t kMaxPackageFiles = 1000;

// Any bytes give a manifest that keeps what is said above or an Error that names `source` and what is wrong.
Manifest parse_manifest(std::string_view text, const std::string& source);
// The same for what a package's author writes: without `build` and [files], which packing adds.
Manifest parse_author_manifest(std::string_view text, const std::string& source);

}  // namespace epilogue::package
