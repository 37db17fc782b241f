// Fetching from a web server, only when the user adds a package.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "package/files.h"

namespace epilogue::package {

// Called now and then with the bytes that are there and that there will be.
using Progress = std::function<void(uint64_t done, uint64_t total)>;

bool is_url(const std::string& source);  // http:// or https://

// Throws Error with the URL and what the server said, or when it is larger than `limit`.
std::string fetch_text(const std::string& url, uint64_t limit);

struct Wanted {
  std::string url;
  uint64_t size = 0;
  std::string sha256;
};

// A file fetched into `folder`, as <sha256>.part until it is thrown away. What an earlier try has left is
// gone on with; two processes that want the same file wait for each other. Throws Error with how far it came.
class Download {
 public:
  Download(const Wanted& wanted, const std::string& folder, const Progress& progress);
  const std::string& path() const { return path_; }
  void discard();  // it was used

 private:
  bool fetch_rest(const Wanted& wanted, const Progress& progress);
  uint64_t bytes_there() const;
  void restart();

  std::string path_;
  FileLock lock_;
};

}  // namespace epilogue::package
