#include "base/blob_cache.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstring>
#include <ctime>
#include <filesystem>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>
#include <sys/stat.h>

#include "base/cache_dir.h"
#include "base/env.h"
#include "base/file.h"
#include "base/hash.h"
#include "epilogue/error.h"

namespace epilogue {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "epilogue-blob-1 ";
constexpr int64_t kStaleSeconds = 3600;  // a temporary file this old was left by a process that ended

std::atomic<int64_t> hits{0}, misses{0}, damaged{0}, failed_writes{0};

FileDescriptor open_to_read(const std::string& path) {
  return FileDescriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC));
}

// Nothing where that is more than `most_bytes`, as only damage makes it.
std::optional<std::string> read_all(const FileDescriptor& file, int64_t most_bytes) {
  struct stat status {};
  if (fstat(file.get(), &status) != 0 || status.st_size < 0 || status.st_size > most_bytes) return {};
  std::string bytes(static_cast<size_t>(status.st_size), '\0');
  size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t got = read(file.get(), bytes.data() + filled, bytes.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return {};
    filled += static_cast<size_t>(got);
  }
  return bytes;
}

std::string header_for(std::string_view key, std::string_view bytes) {
  return fmt::format("{}{} {} {:016x}\n", kMagic, key.size(), bytes.size(), hash_of(bytes, hash_of(key, 1)));
}

struct Parsed {
  std::string_view key, bytes;
};

// Nothing for what is no whole entry.
std::optional<Parsed> parse(std::string_view file) {
  const size_t line = file.find('\n');
  if (!file.starts_with(kMagic) || line == std::string_view::npos) return {};
  const char* at = file.data() + kMagic.size();
  const char* const end = file.data() + line;
  size_t key = 0, bytes = 0;
  const auto first = std::from_chars(at, end, key);
  if (first.ec != std::errc{} || first.ptr == end) return {};
  const auto second = std::from_chars(first.ptr + 1, end, bytes);
  if (second.ec != std::errc{}) return {};
  const std::string_view rest = file.substr(line + 1);
  if (key > rest.size() || bytes != rest.size() - key) return {};
  const Parsed parsed{rest.substr(0, key), rest.substr(key)};
  return file.substr(0, line + 1) == header_for(parsed.key, parsed.bytes) ? std::optional(parsed)
                                                                          : std::nullopt;
}

bool is_entry(const fs::path& path) { return path.extension() == ".blob"; }

}  // namespace

BlobCache::BlobCache(std::string folder, int64_t most_bytes)
    : folder_(std::move(folder)), most_bytes_(most_bytes) {}

BlobCache& BlobCache::kernels() {
  static auto* cache = new BlobCache(cache_dir().empty() ? "" : cache_dir() + "/kernels",
                                     env_megabytes(EnvVar::cache_mb, 512) * (int64_t{1} << 20));
  return *cache;
}

std::string BlobCache::path_of(std::string_view key) const {
  return fmt::format("{}/{:016x}{:016x}.blob", folder_, hash_of(key), hash_of(key, 0x9e3779b97f4a7c15));
}

std::optional<std::string> BlobCache::get(std::string_view key) {
  if (folder_.empty()) return {};
  const std::string path = path_of(key);
  const FileDescriptor file = open_to_read(path);
  if (!file) {
    ++misses;
    return {};
  }
  const auto content = read_all(file, most_bytes_);
  const auto parsed = content ? parse(*content) : std::nullopt;
  if (!parsed || parsed->key != key) {
    ++damaged;
    ++misses;
    unlink(path.c_str());
    return {};
  }
  ++hits;
  futimens(file.get(), nullptr);  // used now
  return std::string(parsed->bytes);
}

bool BlobCache::put(std::string_view key, std::string_view bytes) {
  if (folder_.empty()) return false;
  std::error_code ignored;
  fs::create_directories(folder_, ignored);
  try {
    ReplacementFile file(path_of(key));
    const std::string header = header_for(key, bytes);
    for (const std::string_view part : {std::string_view(header), key, bytes})
      file.write(part.data(), part.size());
    file.commit();
  } catch (const Error&) {
    ++failed_writes;
    return false;
  }
  trim();
  return true;
}

std::vector<BlobCache::Entry> BlobCache::list() const {
  std::vector<Entry> entries;
  std::error_code error;
  for (fs::directory_iterator at(folder_, error), end; !error && at != end; at.increment(error)) {
    struct stat status {};
    if (!is_entry(at->path()) || stat(at->path().c_str(), &status) != 0) continue;
    Entry entry{
        .file = at->path().string(), .first_line = "", .bytes = status.st_size, .used = status.st_mtime};
    const FileDescriptor file = open_to_read(entry.file);
    if (const auto content = file ? read_all(file, most_bytes_) : std::nullopt)
      if (const auto parsed = parse(*content))
        entry.first_line = parsed->key.substr(0, parsed->key.find('\n'));
    entries.push_back(std::move(entry));
  }
  std::ranges::sort(entries, std::greater{}, &Entry::used);
  return entries;
}

bool BlobCache::empty() const {
  std::error_code error;
  for (fs::directory_iterator at(folder_, error), end; !error && at != end; at.increment(error))
    if (is_entry(at->path())) return false;
  return true;
}

int64_t BlobCache::clear() {
  int64_t freed = 0;
  std::error_code error;
  for (fs::directory_iterator at(folder_, error), end; !error && at != end; at.increment(error)) {
    if (!is_entry(at->path()) && at->path().extension() != ".tmp") continue;
    std::error_code ignored;
    const auto size = static_cast<int64_t>(fs::file_size(at->path(), ignored));
    if (fs::remove(at->path(), ignored)) freed += size;
  }
  return freed;
}

// Readers that hold a file open keep it; the next one misses.
void BlobCache::trim() {
  struct Found {
    int64_t used, bytes;
    std::string path;
  };
  std::vector<Found> found;
  int64_t total = 0;
  std::error_code error;
  for (fs::directory_iterator at(folder_, error), end; !error && at != end; at.increment(error)) {
    struct stat status {};
    if (stat(at->path().c_str(), &status) != 0) continue;
    if (at->path().extension() == ".tmp" && status.st_mtime + kStaleSeconds < time(nullptr))
      unlink(at->path().c_str());
    if (!is_entry(at->path())) continue;
    found.push_back({status.st_mtime, status.st_size, at->path().string()});
    total += status.st_size;
  }
  std::ranges::sort(found, {}, &Found::used);
  for (const Found& oldest : found) {
    if (total <= most_bytes_) break;
    if (unlink(oldest.path.c_str()) == 0) total -= oldest.bytes;
  }
}

BlobCache::Counts BlobCache::counts() const { return {hits, misses, damaged, failed_writes}; }

}  // namespace epilogue
