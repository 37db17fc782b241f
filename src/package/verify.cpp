#include "package/verify.h"

#include <filesystem>

#include "base/check.h"
#include "package/digest.h"
#include "package/files.h"

namespace epilogue::package {
namespace {

namespace fs = std::filesystem;

std::string compare_file(const std::string& path, const PackageFile& expected, bool keep) {
  Sha256 digest;
  std::string content;
  const uint64_t size = read_pieces(path, [&](std::string_view piece) {
    digest.add(piece);
    if (keep) content += piece;
  });
  EP_CHECK(size == expected.size, "{}: it has {} bytes, {} lists {}", path, size, kManifestFile,
           expected.size);
  const std::string found = digest.finish();
  EP_CHECK(found == expected.sha256, "{}: its SHA-256 is {}, {} lists {}", path, found, kManifestFile,
           expected.sha256);
  return content;
}

void refuse_unlisted(const std::string& folder, const Manifest& manifest) {
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_directory() && !entry.is_symlink()) continue;
    const std::string path = fs::path(entry.path()).lexically_relative(folder);
    const bool known = manifest.files.contains(path) || path == kManifestFile ||
                       (manifest.is_signed && path == kSignatureFile);
    EP_CHECK(known, "{}: it is not listed in {}", entry.path().string(), kManifestFile);
  }
}

}  // namespace

std::string KnownManifest::signature_text() const {
  if (signed_by.empty()) return "not signed";
  return trusted ? "signed by a trusted key" : "signed by a key not trusted";
}

KnownManifest read_manifest(const std::string& folder, const std::string& expected, const Policy* policy) {
  const std::string path = folder + "/" + kManifestFile;
  const std::string text = read_file(path, kMaxManifestBytes);
  KnownManifest known{.digest = sha256(text)};
  EP_CHECK(expected.empty() || known.digest == expected, "{}: its SHA-256 is {}, expected {}", path,
           known.digest, expected);
  known.manifest = parse_manifest(text, path);
  if (known.manifest.is_signed) {
    const std::string signature_path = folder + "/" + kSignatureFile;
    const Signature signature = parse_signature(read_file(signature_path, 1024), signature_path);
    EP_CHECK(signature_holds(signature, text), "{}: the signature does not fit {}", signature_path,
             kManifestFile);
    known.signed_by = signature.key;
    known.trusted = policy && policy->trusts(known.manifest.reference.name, signature.key);
  }
  if (policy && policy->require_signature)
    EP_CHECK(
        known.trusted, "{}: the policy requires the signature of a trusted key, and {} {}", path,
        known.manifest.reference.to_string(),
        known.signed_by.empty() ? "is not signed" : "is signed by a key not trusted, " + known.signed_by);
  return known;
}

std::string verify_files(const std::string& folder, const Manifest& manifest, const std::string& keep) {
  std::string kept;
  for (const auto& [path, expected] : manifest.files) {
    std::string content = compare_file(folder + "/" + path, expected, path == keep);
    if (path == keep) kept = std::move(content);
  }
  try {
    refuse_unlisted(folder, manifest);
  } catch (const fs::filesystem_error& error) {
    fail("{}: {}", folder, error.what());
  }
  return kept;
}

}  // namespace epilogue::package
