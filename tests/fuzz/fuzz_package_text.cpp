// The manifest, index, lock, policy and signature readers, chosen by the first byte: any bytes give an Error
// or what keeps its promises, and what was read and is written again is read the same.
#include <cstdlib>

#include "epilogue/error.h"
#include "package/digest.h"
#include "package/index.h"
#include "package/lock_file.h"
#include "package/manifest.h"
#include "package/policy.h"

using namespace epilogue;
using namespace epilogue::package;

namespace {

void expect(bool holds) {
  if (!holds) std::abort();
}

void check_manifest(std::string_view text) {
  const Manifest manifest = parse_manifest(text, "package.toml");
  expect(is_package_name(manifest.reference.name) && manifest.reference.version > 0 &&
         is_plain_word(manifest.build));
  expect(manifest.unpacked_bytes() <= kMaxPackageBytes && manifest.files.size() <= kMaxPackageFiles);
  for (const auto& [path, file] : manifest.files)
    expect(path_problem(path).empty() && is_hex(file.sha256, 32));
  for (const Variant& variant : manifest.variants) {
    expect(variant.abi > 0 && manifest.files.contains(variant.folder() + variant.library));
    expect((variant.backend == "cpu") != variant.isa.empty() &&
           (variant.backend == "cuda") != variant.archs.empty());
  }
  for (const ProvidedLayer& layer : manifest.layers)
    for (const std::string& op : layer.ops) expect(manifest.op(op) != nullptr);
}

void check_index(std::string_view text) {
  const Index index = parse_index(text, "index.json");
  for (const IndexEntry& entry : index.entries) {
    expect(is_package_name(entry.reference.name) && path_problem(entry.file).empty() &&
           is_hex(entry.sha256, 32));
    expect(entry.file.find('/') == entry.file.npos && entry.size <= kMaxPackageBytes);
  }
  expect(parse_index(index.to_json(), "index.json").to_json() == index.to_json());
}

void check_lock(std::string_view text) {
  LockFile lock = parse_lock(text, "kernels.lock");
  for (const LockedPackage& package : lock.packages) expect(lock.find(package.reference) == &package);
  for (LockedPackage package : std::vector(lock.packages)) lock.set(std::move(package));  // sorts
  expect(parse_lock(lock.to_text(), "kernels.lock").to_text() == lock.to_text());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  try {
    switch (data[0]) {
      case 'm':
        check_manifest(text);
        break;
      case 'i':
        check_index(text);
        break;
      case 'l':
        check_lock(text);
        break;
      case 'p':
        parse_policy(text, "kernels.toml");
        break;
      case 's':
        expect(parse_signature(text, "package.sig").to_text() == text);
        break;
      default:
        parse_author_manifest(text, "package.toml");
    }
  } catch (const Error&) {
  }
  return 0;
}
