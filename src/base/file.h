// Files by descriptor, and files that appear under their name only when they are whole.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace epilogue {

// What errno says.
std::string system_error();

class FileDescriptor {
 public:
  FileDescriptor() = default;  // none
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor();
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }  // the caller closes it
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// For reading. Throws Error naming the path where it does not open, or is a directory and not `expected`: "a
// trace file".
FileDescriptor open_to_read(const std::string& path, std::string_view expected);
// The whole of such a file.
std::string read_file(const std::string& path, std::string_view expected);

// A file beside `path` that takes its place on commit() and is gone otherwise: where the file system can it
// has no name until it is whole, so that a process that is killed while it writes leaves nothing behind. It
// has the mode of the file that it replaces; a link stays, and the file that it leads to is replaced. A pipe
// or a character device is none to replace: what is written goes through it at once. All but the destructor
// throw Error, to which the caller adds the path.
class ReplacementFile {
 public:
  explicit ReplacementFile(const std::string& path);
  ~ReplacementFile();

  void write(const void* data, size_t size);
  // The open file, for a library that writes by itself.
  int descriptor() const { return file_.get(); }
  // On disk before it takes its place: after a crash there is the old file or the new one, whole.
  void commit();

 private:
  std::string path_, temporary_;  // no path: nothing is to be renamed; no temporary: nothing to be removed
  FileDescriptor file_;
};

// The whole of a file by a ReplacementFile: another process sees the old content or the new one, never a
// part. Throws Error naming it.
void replace_file(const std::string& path, std::string_view content);

}  // namespace epilogue
