#include "package/archive.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <set>

#include <archive.h>
#include <archive_entry.h>
#include <unistd.h>

#include "base/check.h"
#include "package/files.h"

namespace epilogue::package {
namespace {

constexpr uint64_t kMaxSignatureBytes = 1024;

struct FreeArchive {
  void operator()(archive* a) const { archive_free(a); }
  void operator()(archive_entry* e) const { archive_entry_free(e); }
};
using Archive = std::unique_ptr<archive, FreeArchive>;

const char* error_of(archive* a) {
  const char* text = archive_error_string(a);
  return text ? text : "it is damaged";
}

// No exception may pass through libarchive.
la_ssize_t give_piece(archive* a, void* source, const void** bytes) {
  try {
    const std::string_view piece = static_cast<ArchiveSource*>(source)->next();
    *bytes = piece.data();
    return static_cast<la_ssize_t>(piece.size());
  } catch (const std::exception& error) {
    archive_set_error(a, EIO, "%s", error.what());
    return -1;
  }
}

class Reader {
 public:
  Reader(ArchiveSource& source, const std::string& name, ArchiveSink& sink)
      : archive_(archive_read_new()), name_(name), sink_(sink) {
    EP_CHECK(archive_, "{}: no memory to read it", name_);
    archive_read_support_format_tar(archive_.get());
    archive_read_support_filter_gzip(archive_.get());
    EP_CHECK(archive_read_open(archive_.get(), &source, nullptr, give_piece, nullptr) == ARCHIVE_OK,
             "{}: {}; expected a .tar.gz", name_, error_of(archive_.get()));
  }

  Manifest read() {
    archive_entry* entry = nullptr;
    int result;
    while ((result = archive_read_next_header(archive_.get(), &entry)) == ARCHIVE_OK) read_entry(entry);
    EP_CHECK(result == ARCHIVE_EOF, "{}: {}", name_, error_of(archive_.get()));
    EP_CHECK(seen_.contains(kManifestFile), "{}: it has no {}", name_, kManifestFile);
    for (const auto& [path, file] : manifest_.files)
      EP_CHECK(seen_.contains(path), "{}: {} is missing", name_, path);
    EP_CHECK(!manifest_.is_signed || seen_.contains(kSignatureFile), "{}: {} is missing", name_,
             kSignatureFile);
    return std::move(manifest_);
  }

 private:
  void read_entry(archive_entry* entry) {
    EP_CHECK(++entries_ <= 2 * kMaxPackageFiles, "{}: it has more than {} entries", name_,
             2 * kMaxPackageFiles);
    const char* raw = archive_entry_pathname(entry);
    EP_CHECK(raw, "{}: an entry's name is no text", name_);
    std::string path = raw;
    const bool folder = archive_entry_filetype(entry) == AE_IFDIR;
    if (folder && path.ends_with('/')) path.pop_back();
    const std::string problem = path_problem(path);
    EP_CHECK(problem.empty(), "{}: entry {} has a path that is refused: {}", name_, entries_, problem);
    EP_CHECK(!archive_entry_symlink(entry) && !archive_entry_hardlink(entry),
             "{}: {} is a link; a package holds regular files alone", name_, path);
    if (folder) return;
    EP_CHECK(archive_entry_filetype(entry) == AE_IFREG,
             "{}: {} is no regular file; a package holds regular files alone", name_, path);
    EP_CHECK(seen_.insert(path).second, "{}: {} is there twice", name_, path);
    EP_CHECK(archive_entry_size_is_set(entry) && archive_entry_size(entry) >= 0, "{}: {} has no size", name_,
             path);
    const auto size = static_cast<uint64_t>(archive_entry_size(entry));
    if (seen_.size() == 1)
      read_manifest(path, size);
    else
      read_listed(path, size);
  }

  void read_manifest(const std::string& path, uint64_t size) {
    EP_CHECK(path == kManifestFile, "{}: its first file is {}, expected {}", name_, path, kManifestFile);
    EP_CHECK(size <= kMaxManifestBytes, "{}: {} of {} bytes is larger than {}", name_, path, size,
             kMaxManifestBytes);
    std::string text;
    read_data(path, size, [&text](std::string_view piece) { text += piece; });
    manifest_ = parse_manifest(text, name_ + ": " + path);
    sink_.begin_file(path);
    sink_.append(text);
    sink_.end_file();
  }

  void read_listed(const std::string& path, uint64_t size) {
    if (path == kSignatureFile) {
      EP_CHECK(manifest_.is_signed && size <= kMaxSignatureBytes, "{}: {} of {} bytes was not expected",
               name_, path, size);
    } else {
      const auto found = manifest_.files.find(path);
      EP_CHECK(found != manifest_.files.end(), "{}: {} is not listed in {}", name_, path, kManifestFile);
      EP_CHECK(size == found->second.size, "{}: {} has {} bytes, {} lists {}", name_, path, size,
               kManifestFile, found->second.size);
    }
    sink_.begin_file(path);
    read_data(path, size, [this](std::string_view piece) { sink_.append(piece); });
    sink_.end_file();
  }

  template <class Take>
  void read_data(const std::string& path, uint64_t size, Take take) {
    buffer_.resize(std::min<uint64_t>(size, 1 << 18));
    for (uint64_t left = size; left > 0;) {
      const la_ssize_t got =
          archive_read_data(archive_.get(), buffer_.data(), std::min<uint64_t>(left, buffer_.size()));
      EP_CHECK(got >= 0, "{}: {}: {}", name_, path, error_of(archive_.get()));
      EP_CHECK(got > 0, "{}: {} is cut short", name_, path);
      take(std::string_view(buffer_).substr(0, static_cast<size_t>(got)));
      left -= static_cast<uint64_t>(got);
    }
  }

  Archive archive_;
  const std::string& name_;
  ArchiveSink& sink_;
  Manifest manifest_;
  std::set<std::string> seen_;
  size_t entries_ = 0;
  std::string buffer_;
};

class FileSource final : public ArchiveSource {
 public:
  explicit FileSource(const std::string& path)
      : path_(path), file_(open_to_read(path, "a packed package")), buffer_(1 << 18, '\0') {}
  std::string_view next() override {
    const ssize_t got = ::read(file_.get(), buffer_.data(), buffer_.size());
    EP_CHECK(got >= 0, "{}: cannot read: {}", path_, system_error());
    return std::string_view(buffer_).substr(0, static_cast<size_t>(got));
  }

 private:
  const std::string& path_;
  FileDescriptor file_;
  std::string buffer_;
};

class FolderSink final : public ArchiveSink {
 public:
  explicit FolderSink(const std::string& folder) : folder_(folder) {}
  void begin_file(const std::string& path) override {
    const std::filesystem::path full = std::filesystem::path(folder_) / path;
    make_folders(full.parent_path());
    file_ = std::make_unique<NewFile>(full);
  }
  void append(std::string_view piece) override { file_->append(piece); }
  void end_file() override { file_->finish(); }

 private:
  const std::string& folder_;
  std::unique_ptr<NewFile> file_;
};

void write_entry(archive* a, const std::string& file, const std::string& path, const std::string& content) {
  const std::unique_ptr<archive_entry, FreeArchive> entry(archive_entry_new());
  archive_entry_set_pathname(entry.get(), path.c_str());
  archive_entry_set_filetype(entry.get(), AE_IFREG);
  archive_entry_set_perm(entry.get(), 0644);
  archive_entry_set_mtime(entry.get(), 0, 0);
  archive_entry_set_size(entry.get(), static_cast<la_int64_t>(content.size()));
  EP_CHECK(
      archive_write_header(a, entry.get()) == ARCHIVE_OK &&
          archive_write_data(a, content.data(), content.size()) == static_cast<la_ssize_t>(content.size()),
      "{}: {}", file, error_of(a));
}

}  // namespace

Manifest read_archive(ArchiveSource& source, const std::string& name, ArchiveSink& sink) {
  return Reader(source, name, sink).read();
}

Manifest unpack_archive(const std::string& file, const std::string& folder) {
  FileSource source(file);
  FolderSink sink(folder);
  return read_archive(source, file, sink);
}

void write_archive(const std::string& file, const std::string& folder, const Manifest& manifest) {
  const Archive a(archive_write_new());
  EP_CHECK(a && archive_write_set_format_pax_restricted(a.get()) == ARCHIVE_OK &&
               archive_write_add_filter_gzip(a.get()) == ARCHIVE_OK &&
               archive_write_set_filter_option(a.get(), "gzip", "timestamp", nullptr) == ARCHIVE_OK &&
               archive_write_open_filename(a.get(), file.c_str()) == ARCHIVE_OK,
           "{}: {}", file, error_of(a.get()));
  const auto add = [&](const std::string& path) {
    write_entry(a.get(), file, path, read_file(folder + "/" + path, kMaxPackageBytes));
  };
  add(kManifestFile);
  if (manifest.is_signed) add(kSignatureFile);
  for (const auto& [path, listed] : manifest.files) add(path);
  EP_CHECK(archive_write_close(a.get()) == ARCHIVE_OK, "{}: {}", file, error_of(a.get()));
}

}  // namespace epilogue::package
