#include "package/files.h"

#include <cerrno>
#include <filesystem>

#include <fcntl.h>
#include <unistd.h>

#include <sys/file.h>
#include <sys/stat.h>

#include "base/check.h"

namespace epilogue::package {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_with_errno(const std::string& path, const char* what) {
  fail("{}: {}: {}", path, what, system_error());
}

FileDescriptor open_lock(const std::string& path) {
  FileDescriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (!file) fail_with_errno(path, "the lock cannot be opened");
  return file;
}

// Whether `path` still leads to the file: whoever held the lock before may have removed it.
bool is_at(const FileDescriptor& file, const std::string& path) {
  struct stat opened {
  }, there{};
  return fstat(file.get(), &opened) == 0 && stat(path.c_str(), &there) == 0 &&
         opened.st_ino == there.st_ino && opened.st_dev == there.st_dev;
}

FileDescriptor open_regular(const std::string& path) {
  FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file && errno == ENOENT) fail("{}: the file is missing", path);
  if (!file && errno == ELOOP) fail("{}: it is a symbolic link", path);
  if (!file) fail_with_errno(path, "it cannot be read");
  struct stat status {};
  if (fstat(file.get(), &status) != 0) fail_with_errno(path, "it cannot be read");
  EP_CHECK(S_ISREG(status.st_mode), "{}: it is no regular file", path);
  return file;
}

size_t read_some(const FileDescriptor& file, const std::string& path, char* to, size_t size) {
  ssize_t got;
  do got = read(file.get(), to, size);
  while (got < 0 && errno == EINTR);
  if (got < 0) fail_with_errno(path, "it cannot be read");
  return static_cast<size_t>(got);
}

}  // namespace

FileLock FileLock::wait(const std::string& path) {
  for (;;) {
    FileLock lock;
    lock.file_ = open_lock(path);
    int result;
    do result = flock(lock.file_.get(), LOCK_EX);
    while (result != 0 && errno == EINTR);
    if (result != 0) fail_with_errno(path, "it cannot be locked");
    if (is_at(lock.file_, path)) return lock;
  }
}

FileLock FileLock::try_now(const std::string& path) {
  FileLock lock;
  FileDescriptor file = open_lock(path);
  if (flock(file.get(), LOCK_EX | LOCK_NB) == 0) lock.file_ = std::move(file);
  return lock;
}

NewFile::NewFile(const std::string& path)
    : path_(path), file_(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666)) {
  if (!file_) fail_with_errno(path, "it cannot be created");
}

void write_all(int descriptor, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail_with_errno(path, "it cannot be written");
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

void NewFile::finish() {
  if (fsync(file_.get()) != 0 || close(file_.release()) != 0) fail_with_errno(path_, "it cannot be written");
}

uint64_t read_pieces(const std::string& path, const std::function<void(std::string_view)>& piece) {
  const FileDescriptor file = open_regular(path);
  std::string buffer(size_t{1} << 18, '\0');
  uint64_t total = 0;
  while (const size_t got = read_some(file, path, buffer.data(), buffer.size())) {
    piece(std::string_view(buffer).substr(0, got));
    total += got;
  }
  return total;
}

std::string read_file(const std::string& path, uint64_t limit) {
  std::string content;
  read_pieces(path, [&](std::string_view piece) {
    EP_CHECK(piece.size() <= limit - content.size(), "{}: it is larger than the {} bytes it may have", path,
             limit);
    content += piece;
  });
  return content;
}

void make_folders(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  EP_CHECK(!error, "{}: the folder cannot be made: {}", path, error.message());
}

void sync_folder(const std::string& path) {
  const FileDescriptor folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // A file system that cannot flush a folder says EINVAL: there is nothing more to do then.
  if (!folder || (fsync(folder.get()) != 0 && errno != EINVAL)) fail_with_errno(path, "it cannot be flushed");
}

void sync_tree(const std::string& path) {
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(path))
    if (entry.is_directory() && !entry.is_symlink()) sync_folder(entry.path());
  sync_folder(path);
}

void remove_tree(const std::string& path) noexcept {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

}  // namespace epilogue::package
