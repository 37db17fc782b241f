#include "base/file.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <unistd.h>

#include <sys/stat.h>

#include "base/check.h"

namespace epilogue {
namespace {

// Of what is at the path, behind links; 0 where nothing is.
mode_t mode_at(const std::string& path) {
  struct stat found {};
  return ::stat(path.c_str(), &found) == 0 ? found.st_mode : 0;
}

// Renaming over a device or a pipe would put a file in its place: their bytes go through them instead. A disk
// holds more than the one result.
bool takes_bytes(mode_t mode) {
  EP_CHECK(!S_ISDIR(mode), "is a directory, expected a file");
  EP_CHECK(mode == 0 || S_ISREG(mode) || S_ISCHR(mode) || S_ISFIFO(mode), "it is no regular file");
  return S_ISCHR(mode) || S_ISFIFO(mode);
}

// The path that a rename is to take: links stay, and what they lead to is replaced, be it there or not yet.
std::string behind_links(const std::string& path) {
  constexpr int kMostLinks = 40;  // as Linux has it
  std::filesystem::path at = path;
  std::error_code error;
  for (int links = 0; std::filesystem::is_symlink(at, error); ++links) {
    EP_CHECK(links < kMostLinks, "its links lead in a circle");
    at = at.parent_path() / std::filesystem::read_symlink(at, error);
  }
  return at;
}

// `name` becomes that of the file. A process that had our number may have crashed and left its own behind:
// containers number theirs alike.
int open_temporary(const std::string& path, mode_t mode, std::string& name) {
  static std::atomic<unsigned> count{0};
  for (;;) {
    name = fmt::format("{}.{}.{}.tmp", path, ::getpid(), count++);
    const int fd = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
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

FileDescriptor open_to_read(const std::string& path, std::string_view expected) {
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  EP_CHECK(file, "{}: cannot open: {}", path, system_error());
  struct stat found {};
  EP_CHECK(::fstat(file.get(), &found) != 0 || !S_ISDIR(found.st_mode), "{}: is a directory, expected {}",
           path, expected);
  return file;
}

std::string read_file(const std::string& path, std::string_view expected) {
  const FileDescriptor file = open_to_read(path, expected);
  constexpr size_t kStep = 1 << 16;
  std::string text;
  for (size_t size = 0;;) {
    text.resize(size + kStep);
    const ssize_t got = ::read(file.get(), text.data() + size, kStep);
    if (got < 0 && errno == EINTR) continue;
    EP_CHECK(got >= 0, "{}: cannot read: {}", path, system_error());
    size += static_cast<size_t>(got);
    if (got > 0) continue;
    text.resize(size);
    return text;
  }
}

ReplacementFile::ReplacementFile(const std::string& path) {
  const mode_t old = mode_at(path);
  if (takes_bytes(old)) {
    file_ = FileDescriptor(::open(path.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC));
  } else {
    path_ = behind_links(path);
    file_ = FileDescriptor(open_temporary(path_, old == 0 ? 0666 : old & 0777, temporary_));
    // The umask may have taken bits that the old file had. Where this fails, the file is open to fewer, not
    // more.
    if (old != 0 && file_) (void)!::fchmod(file_.get(), old & 0777);
  }
  EP_CHECK(file_, "cannot create: {}", system_error());
}

ReplacementFile::~ReplacementFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
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
  if (temporary_.empty()) return;  // it went through, and a pipe cannot be flushed to a disk
  EP_CHECK(::fsync(file_.get()) == 0, "cannot write: {}", system_error());
  EP_CHECK(::rename(temporary_.c_str(), path_.c_str()) == 0, "cannot take its place: {}", system_error());
  temporary_.clear();
  const auto folder = std::filesystem::absolute(path_).parent_path();
  const FileDescriptor directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() >= 0) ::fsync(directory.get());
}

void replace_file(const std::string& path, std::string_view content) try {
  ReplacementFile file(path);
  file.write(content.data(), content.size());
  file.commit();
} catch (const Error& error) {
  fail("{}: {}", path, error.what());
}

}  // namespace epilogue
