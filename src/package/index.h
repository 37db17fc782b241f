// index.json: which packages lie on a web server, beside it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "package/name.h"

namespace epilogue::package {

struct IndexEntry {
  Reference reference;
  std::string build;
  std::string file;    // the archive's name beside the index: one path component
  uint64_t size = 0;   // of the archive
  std::string sha256;  // of the archive
};

struct Index {
  std::vector<IndexEntry> entries;  // of one version the last one is the newest

  // Throws Error that lists what there is.
  const IndexEntry& find(const Reference& reference, const std::string& source) const;
  void set(IndexEntry entry);  // the same build once
  std::string to_json() const;
};

inline constexpr const char* kIndexFile = "index.json";
inline constexpr uint64_t kMaxIndexBytes = 16 << 20;

// Throws Error naming `source` and what is wrong.
Index parse_index(std::string_view text, const std::string& source);

}  // namespace epilogue::package
