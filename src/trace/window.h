// A stretch of the byte stream, moved along it; what lies in it can be handed to simdjson in place.
#pragma once

#include <string_view>
#include <vector>

#include "trace/stream.h"

namespace epilogue::trace {

class Window {
 public:
  Window(ByteSource& source, size_t size);

  // What is in the window and not yet consumed. One byte before it and simdjson's padding after it may be
  // written and read.
  char* begin() { return buffer_.data() + begin_; }
  std::string_view text() const { return {buffer_.data() + begin_, end_ - begin_}; }
  bool at_end() const { return at_end_; }  // the stream has no more than text()
  void consume(size_t bytes) { begin_ += bytes; }
  // Puts bytes before text().
  void unread(std::string_view bytes);
  // Reads on behind text(); where the window is full, into a larger one.
  void fill();

 private:
  ByteSource& source_;
  std::vector<char> buffer_;
  size_t begin_ = 1, end_ = 1;
  bool at_end_ = false;
};

}  // namespace epilogue::trace
