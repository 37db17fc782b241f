// Files of the cache: written through to the disk, replaced whole, locked between processes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/file.h"

namespace epilogue::package {

// An exclusive lock on the file `path`, made where it is not there. It ends with the object or the process,
// however that ends.
class FileLock {
 public:
  static FileLock wait(const std::string& path);
  // Without the lock when another process or thread has it.
  static FileLock try_now(const std::string& path);
  bool held() const { return static_cast<bool>(file_); }
  int descriptor() const { return file_.get(); }  // of the locked file, to read and write

 private:
  FileDescriptor file_;
};

// Throws Error naming `path` unless all was written.
void write_all(int descriptor, std::string_view bytes, const std::string& path);

// A file being written: append, then finish(), which throws Error unless everything is on the disk.
class NewFile {
 public:
  explicit NewFile(const std::string& path);  // which must not be there
  void append(std::string_view bytes) { write_all(file_.get(), bytes, path_); }
  void finish();

 private:
  std::string path_;
  FileDescriptor file_;
};

// The whole of a regular file, not followed if it is a symbolic link. Throws Error naming it, also when it is
// larger than `limit`.
std::string read_file(const std::string& path, uint64_t limit);
// The same in pieces; returns the size.
uint64_t read_pieces(const std::string& path, const std::function<void(std::string_view)>& piece);

void make_folders(const std::string& path);
void sync_folder(const std::string& path);
// Flushes every folder below `path` and itself: what was written in them is found after a power cut.
void sync_tree(const std::string& path);
void remove_tree(const std::string& path) noexcept;

}  // namespace epilogue::package
