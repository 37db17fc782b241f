#include "base/file.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <unistd.h>

#include "base/check.h"

namespace epilogue {
namespace {

// Unlike any other's, of this process or another. Throws Error where the path is a folder's.
std::string temporary_beside(const std::string& path) {
  std::error_code error;
  EP_CHECK(!std::filesystem::is_directory(path, error), "is a directory, expected a file");
  static std::atomic<unsigned> count{0};
  return fmt::format("{}.{}.{}.tmp", path, ::getpid(), count++);
}

}  // namespace

std::string system_error() { return std::strerror(errno); }

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) ::close(fd_);
}

ReplacementFile::ReplacementFile(const std::string& path)
    : path_(path),
      temporary_(temporary_beside(path)),
      file_(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) {
  EP_CHECK(file_.get() >= 0, "cannot create: {}", system_error());
}

ReplacementFile::~ReplacementFile() {
  if (!committed_) ::unlink(temporary_.c_str());
}

void ReplacementFile::write(const void* data, size_t size) {
  const char* bytes = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = ::write(file_.get(), bytes, size);
    if (written < 0 && errno == EINTR) continue;
    EP_CHECK(written > 0, "cannot write: {}", system_error());
    bytes += written;
    size -= static_cast<size_t>(written);
  }
}

void ReplacementFile::commit() {
  EP_CHECK(::fsync(file_.get()) == 0, "cannot write: {}", system_error());
  EP_CHECK(::rename(temporary_.c_str(), path_.c_str()) == 0, "cannot take its place: {}", system_error());
  committed_ = true;
  const auto folder = std::filesystem::absolute(path_).parent_path();
  const FileDescriptor directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() >= 0) ::fsync(directory.get());
}

}  // namespace epilogue
