// Bytes kept on disk by what they were made from, shared by processes: compiled kernels.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace epilogue {

// A file holds one entry: a line with the lengths and a checksum, the key, the bytes. It is written under
// another name, synced and renamed, so that a reader sees a whole entry or none; what is damaged all the same
// is noticed, removed and counted. A folder that cannot be written, a full disk, a process that is killed
// cost the entry and nothing else. Any number of threads and processes may use one folder.
class BlobCache {
 public:
  // Entries beyond `most_bytes` in all go, those used the longest ago first. A folder of "" keeps nothing.
  BlobCache(std::string folder, int64_t most_bytes);
  // "kernels" below cache_dir(), as large as EPILOGUE_CACHE_MB says.
  static BlobCache& kernels();

  std::optional<std::string> get(std::string_view key);
  bool put(std::string_view key, std::string_view bytes);  // false when it could not be kept

  struct Entry {
    std::string file, first_line;  // of the key
    int64_t bytes = 0;             // of the file
    int64_t used = 0;              // seconds since 1970
  };
  std::vector<Entry> list() const;  // the latest used first
  bool empty() const;
  int64_t clear();  // returns the bytes that were freed
  const std::string& folder() const { return folder_; }

  struct Counts {
    int64_t hits = 0, misses = 0, damaged = 0, failed_writes = 0;
  };
  Counts counts() const;

 private:
  std::string path_of(std::string_view key) const;
  void trim();

  const std::string folder_;
  const int64_t most_bytes_;
};

}  // namespace epilogue
