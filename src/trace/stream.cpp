#include "trace/stream.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include <unistd.h>
#include <zlib.h>

#include "base/check.h"
#include "base/file.h"

namespace epilogue::trace {
namespace {

class File final : public ByteSource {
 public:
  explicit File(const std::string& path) : name_(path == "-" ? "standard input" : path) {
    if (path == "-") return;
    fd_ = open_to_read(path, "a trace file").release();
  }
  ~File() override {
    if (fd_ != STDIN_FILENO) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  size_t read(char* into, size_t size) override {
    size_t got = 0;
    while (peeked_ > 0 && got < size) {
      into[got++] = first_[first_.size() - peeked_];
      --peeked_;
    }
    return got + read_on(into + got, size - got);
  }

  bool starts_as_gzip() {
    const size_t got = read_on(first_.data(), first_.size());
    if (got == 1) first_[1] = first_[0];
    peeked_ = got;
    return got == 2 && first_[0] == '\x1f' && first_[1] == '\x8b';
  }

 private:
  size_t read_on(char* into, size_t size) {
    size_t got = 0;
    while (got < size) {
      const ssize_t n = ::read(fd_, into + got, size - got);
      if (n < 0 && errno == EINTR) continue;
      EP_CHECK(n >= 0, "{}: cannot read: {}", name_, system_error());
      if (n == 0) break;
      got += static_cast<size_t>(n);
    }
    return got;
  }

  std::string name_;
  int fd_ = STDIN_FILENO;
  std::array<char, 2> first_{};  // looked at by starts_as_gzip
  size_t peeked_ = 0;            // of them not yet given out
};

// Inflates ahead of its reader, by a few blocks at most.
class Gzip final : public ByteSource {
 public:
  explicit Gzip(std::unique_ptr<File> file) : file_(std::move(file)), thread_([this] { inflate_all(); }) {}
  ~Gzip() override {
    {
      const std::lock_guard lock(mutex_);
      abandoned_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Gzip(const Gzip&) = delete;
  Gzip& operator=(const Gzip&) = delete;

  size_t read(char* into, size_t size) override {
    size_t got = 0;
    while (got < size && (taken_ < current_.size() || next_block())) {
      const size_t n = std::min(size - got, current_.size() - taken_);
      std::memcpy(into + got, current_.data() + taken_, n);
      got += n;
      taken_ += n;
    }
    return got;
  }

  std::string damage() const override {
    const std::lock_guard lock(mutex_);
    return damage_;
  }

 private:
  static constexpr size_t kBlock = size_t{256} << 10, kBlocksAhead = 8;

  bool next_block() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !blocks_.empty() || ended_; });
    if (blocks_.empty()) {
      if (error_) std::rethrow_exception(error_);
      return false;
    }
    current_ = std::move(blocks_.front());
    blocks_.pop_front();
    taken_ = 0;
    lock.unlock();
    changed_.notify_all();
    return true;
  }

  bool give(std::vector<char> block) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return blocks_.size() < kBlocksAhead || abandoned_; });
    if (!block.empty()) blocks_.push_back(std::move(block));
    const bool wanted = !abandoned_;
    lock.unlock();
    changed_.notify_all();
    return wanted;
  }

  void inflate_all() {
    std::string damage;
    std::exception_ptr error;
    try {
      damage = inflate_members();
    } catch (...) {
      error = std::current_exception();
    }
    {
      const std::lock_guard lock(mutex_);
      damage_ = std::move(damage);
      error_ = error;
      ended_ = true;
    }
    changed_.notify_all();
  }

  // Returns what was wrong with the data, or "".
  std::string inflate_members() {
    struct Stream : z_stream {
      Stream() : z_stream{} { inflateInit2(this, 15 + 16); }
      ~Stream() { inflateEnd(this); }
    } stream;
    std::vector<char> input(kBlock), block(kBlock);
    stream.next_out = reinterpret_cast<Bytef*>(block.data());
    stream.avail_out = kBlock;
    bool inside = true;  // a member: from its header to its checksum
    for (;;) {
      if (stream.avail_in == 0) {
        stream.avail_in = static_cast<uInt>(file_->read(input.data(), input.size()));
        stream.next_in = reinterpret_cast<Bytef*>(input.data());
        if (stream.avail_in == 0) break;
      }
      if (!inside) inflateReset(&stream);
      inside = true;
      const int result = inflate(&stream, Z_NO_FLUSH);
      if (stream.avail_out == 0 || result != Z_OK) {
        block.resize(block.size() - stream.avail_out);
        if (!give(std::exchange(block, std::vector<char>(kBlock)))) return {};
        stream.next_out = reinterpret_cast<Bytef*>(block.data());
        stream.avail_out = kBlock;
      }
      if (result == Z_STREAM_END)
        inside = false;
      else if (result != Z_OK && result != Z_BUF_ERROR)
        return fmt::format("gzip data is damaged: {}", stream.msg ? stream.msg : "unknown error");
    }
    block.resize(block.size() - stream.avail_out);
    give(std::move(block));
    return inside ? "gzip data is cut short" : "";
  }

  std::unique_ptr<File> file_;
  std::vector<char> current_;  // the reader's
  size_t taken_ = 0;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<std::vector<char>> blocks_;
  bool ended_ = false, abandoned_ = false;
  std::string damage_;
  std::exception_ptr error_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace

std::unique_ptr<ByteSource> open_source(const std::string& path) {
  auto file = std::make_unique<File>(path);
  if (file->starts_as_gzip()) return std::make_unique<Gzip>(std::move(file));
  return file;
}

}  // namespace epilogue::trace
