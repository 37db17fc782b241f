#include "base/file.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

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

// A file without a name, which is gone with the process, however that ends. -1 where the file system has
// none, or no /proc gives it a name later.
int open_unnamed(const std::string& path, mode_t mode) {
  if (::access("/proc/self/fd", X_OK) != 0) return -1;
  const auto folder = std::filesystem::path(path).parent_path();
  return ::open(folder.empty() ? "." : folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, mode);
}

std::atomic<unsigned> temporaries{0};

// Makes `name`, beside `path`, with the call, which gives -1 where it could not. A process that had our
// number may have crashed and left its own behind: containers number theirs alike.
template <class Make>
int make_temporary(const std::string& path, std::string& name, const Make& make) {
  for (;;) {
    name = fmt::format("{}.{}.{}.tmp", path, ::getpid(), temporaries++);
    const int made = make(name.c_str());
    if (made >= 0) return made;
    if (errno != EEXIST) break;
  }
  name.clear();
  return -1;
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
    const mode_t mode = old == 0 ? 0666 : old & 0777;
    file_ = FileDescriptor(open_unnamed(path_, mode));
    if (!file_)
      file_ = FileDescriptor(make_temporary(path_, temporary_, [mode](const char* name) {
        return ::open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
      }));
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
  if (path_.empty()) return;  // it went through, and a pipe cannot be flushed to a disk
  EP_CHECK(::fsync(file_.get()) == 0, "cannot write: {}", system_error());
  if (temporary_.empty()) {
    const std::string unnamed = fmt::format("/proc/self/fd/{}", file_.get());
    const int linked = make_temporary(path_, temporary_, [&](const char* name) {
      return ::linkat(AT_FDCWD, unnamed.c_str(), AT_FDCWD, name, AT_SYMLINK_FOLLOW);
    });
    EP_CHECK(linked == 0, "cannot be given its name: {}", system_error());
  }
  EP_CHECK(::rename(temporary_.c_str(), path_.c_str()) == 0, "cannot take its place: {}", system_error());
  temporary_.clear();
  const auto folder = std::filesystem::absolute(std::exchange(path_, "")).parent_path();
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
