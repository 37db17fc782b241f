#include "trace/window.h"

#include <cstring>

#include <simdjson.h>

namespace epilogue::trace {

Window::Window(ByteSource& source, size_t size)
    : source_(source), buffer_(1 + size + simdjson::SIMDJSON_PADDING) {
  fill();
}

void Window::unread(std::string_view bytes) {
  std::vector<char> buffer(1 + bytes.size() + text().size() + simdjson::SIMDJSON_PADDING);
  std::memcpy(buffer.data() + 1, bytes.data(), bytes.size());
  std::memcpy(buffer.data() + 1 + bytes.size(), begin(), text().size());
  end_ = 1 + bytes.size() + text().size();
  begin_ = 1;
  buffer_ = std::move(buffer);
}

void Window::fill() {
  std::memmove(buffer_.data() + 1, begin(), end_ - begin_);
  end_ -= begin_ - 1;
  begin_ = 1;
  size_t room = buffer_.size() - simdjson::SIMDJSON_PADDING - end_;
  if (room < buffer_.size() / 2) {
    buffer_.resize(buffer_.size() * 2);
    room = buffer_.size() - simdjson::SIMDJSON_PADDING - end_;
  }
  const size_t got = source_.read(buffer_.data() + end_, room);
  end_ += got;
  at_end_ = got < room;
}

}  // namespace epilogue::trace
