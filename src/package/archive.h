// The .tar.gz of a package, read and written by libarchive.
#pragma once

#include <string>
#include <string_view>

#include "package/manifest.h"

namespace epilogue::package {

// Takes the files of an archive one after the other.
class ArchiveSink {
 public:
  virtual ~ArchiveSink() = default;
  virtual void begin_file(const std::string& path) = 0;  // a path that path_problem() has nothing against
  virtual void append(std::string_view piece) = 0;
  virtual void end_file() = 0;
};

// Gives the archive's bytes piece by piece, "" at its end; a piece lives until the next call.
class ArchiveSource {
 public:
  virtual ~ArchiveSource() = default;
  virtual std::string_view next() = 0;
};

// Passes exactly the files that the manifest names on to the sink, package.toml first, in the sizes it tells;
// hashes are not compared here. Throws Error naming `name` and the entry, before any byte of it went to the
// sink, on what a package does not hold: links, devices, paths that lead out of it, files twice, unknown, of
// another size or missing, more bytes than kMaxPackageBytes.
Manifest read_archive(ArchiveSource& source, const std::string& name, ArchiveSink& sink);

// Unpacks the file into `folder`, which is there and empty. After an Error some files may lie there.
Manifest unpack_archive(const std::string& file, const std::string& folder);

// Writes the archive of the package in `folder`, the same bytes for the same package.
void write_archive(const std::string& file, const std::string& folder, const Manifest& manifest);

}  // namespace epilogue::package
