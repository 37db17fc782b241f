// Where a trace's bytes come from.
#pragma once

#include <memory>
#include <string>

namespace epilogue::trace {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Fills up to `size` bytes and returns how many; fewer than `size` only at the end.
  virtual size_t read(char* into, size_t size) = 0;
  // After the end: why it came early ("gzip data is cut short"), else "".
  virtual std::string damage() const { return {}; }
};

// A file or, for "-", standard input. gzip is told by its first bytes and inflated on a thread of its own.
// Throws Error when it cannot be opened or read.
std::unique_ptr<ByteSource> open_source(const std::string& path);

}  // namespace epilogue::trace
