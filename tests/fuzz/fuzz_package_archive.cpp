// read_archive: any bytes give an Error or exactly the files that the manifest in them names.
#include <cstdlib>
#include <map>

#include "epilogue/error.h"
#include "package/archive.h"

using namespace epilogue;
using namespace epilogue::package;

namespace {

// In pieces of odd sizes, as files and sockets give them.
class Pieces final : public ArchiveSource {
 public:
  explicit Pieces(std::string_view bytes) : left_(bytes) {}
  std::string_view next() override {
    const std::string_view piece = left_.substr(0, 257);
    left_.remove_prefix(piece.size());
    return piece;
  }

 private:
  std::string_view left_;
};

class Collected final : public ArchiveSink {
 public:
  void begin_file(const std::string& path) override {
    if (!path_problem(path).empty() || files.contains(path)) std::abort();
    current_ = &files[path];
  }
  void append(std::string_view piece) override {
    *current_ += piece.size();
    total_ += piece.size();
    if (total_ > kMaxPackageBytes + kMaxManifestBytes + 1024) std::abort();
  }
  void end_file() override { current_ = nullptr; }

  std::map<std::string, uint64_t> files;  // sizes

 private:
  uint64_t* current_ = nullptr;
  uint64_t total_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Pieces pieces({reinterpret_cast<const char*>(data), size});
  Collected sink;
  try {
    const Manifest manifest = read_archive(pieces, "fuzz.tar.gz", sink);
    if (sink.files.size() != manifest.files.size() + (manifest.is_signed ? 2 : 1)) std::abort();
    for (const auto& [path, file] : manifest.files)
      if (sink.files.at(path) != file.size) std::abort();
  } catch (const Error&) {
  }
  return 0;
}
