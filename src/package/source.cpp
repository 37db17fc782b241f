#include "package/source.h"

#include <filesystem>

#include "base/check.h"
#include "package/digest.h"
#include "package/files.h"
#include "package/index.h"

namespace epilogue::package {
namespace {

namespace fs = std::filesystem;

const IndexEntry& entry_of(const Index& index, const std::optional<Reference>& reference,
                           const std::string& source) {
  if (reference) return index.find(*reference, source);
  EP_CHECK(index.entries.size() == 1, "{} is an index of {} packages: say which one, as OWNER/NAME@VERSION",
           source, index.entries.size());
  return index.entries.front();
}

Added add_from_server(Cache& cache, std::string url, const std::optional<Reference>& reference,
                      const Policy& policy, const Progress& progress) {
  if (!url.ends_with(".json")) url = fmt::format("{}{}{}", url, url.ends_with('/') ? "" : "/", kIndexFile);
  const Index index = parse_index(fetch_text(url, kMaxIndexBytes), url);
  const IndexEntry& entry = entry_of(index, reference, url);
  const std::string beside = url.substr(0, url.rfind('/') + 1);
  Download download({beside + entry.file, entry.size, entry.sha256}, cache.downloads(), progress);
  Added added = cache.add(download.path(), entry.reference, policy);
  download.discard();
  return added;
}

Added add_from_index(Cache& cache, const std::string& folder, const std::optional<Reference>& reference,
                     const Policy& policy) {
  const std::string path = folder + "/" + kIndexFile;
  const Index index = parse_index(read_file(path, kMaxIndexBytes), path);
  const IndexEntry& entry = entry_of(index, reference, path);
  const std::string archive = folder + "/" + entry.file;
  Sha256 digest;
  read_pieces(archive, [&digest](std::string_view piece) { digest.add(piece); });
  const std::string found = digest.finish();
  EP_CHECK(found == entry.sha256, "{}: its SHA-256 is {}, the index tells {}", archive, found, entry.sha256);
  return cache.add(archive, entry.reference, policy);
}

}  // namespace

Added add_from(Cache& cache, const std::string& source, const std::optional<Reference>& reference,
               const Policy& policy, const Progress& progress) {
  if (is_url(source)) return add_from_server(cache, source, reference, policy, progress);
  std::error_code error;
  EP_CHECK(fs::exists(source, error), "{}: it is not there; expected a folder, a .tar.gz or an http address",
           source);
  if (fs::is_directory(source, error) && fs::exists(source + "/" + kIndexFile, error) &&
      !fs::exists(source + "/" + kManifestFile, error))
    return add_from_index(cache, source, reference, policy);
  return cache.add(source, reference.value_or(Reference{}), policy);
}

}  // namespace epilogue::package
