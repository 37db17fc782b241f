// The buffers that CUPTI writes its records into.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace epilogue::profile {

struct Buffer {
  struct Free {
    void operator()(uint8_t* bytes) const { std::free(bytes); }
  };
  std::unique_ptr<uint8_t, Free> bytes;
  size_t valid = 0;
};

// CUPTI asks from its threads and from those that make CUDA calls. Never destroyed: it may ask at exit.
class BufferPool {
 public:
  static constexpr size_t kBytes = size_t{4} << 20;
  static constexpr size_t kMost = 256;  // 1 GiB; beyond it CUPTI drops records and counts them
  static constexpr size_t kSpare = 4;   // kept from window to window
  static constexpr size_t kAlignment = 4096;

  static BufferPool& instance() {
    static auto* const pool = new BufferPool;
    return *pool;
  }

  uint8_t* lend() {
    const std::lock_guard lock(mutex_);
    Buffer buffer;
    if (!spare_.empty()) {
      buffer = std::move(spare_.back());
      spare_.pop_back();
    } else if (lent_.size() + full_.size() < kMost) {
      buffer.bytes.reset(static_cast<uint8_t*>(std::aligned_alloc(kAlignment, kBytes)));
    }
    uint8_t* bytes = buffer.bytes.get();
    if (bytes) lent_.emplace(bytes, std::move(buffer));
    return bytes;
  }

  void give_back(uint8_t* bytes, size_t valid) {
    const std::lock_guard lock(mutex_);
    auto buffer = lent_.extract(bytes);
    if (!buffer) return;
    buffer.mapped().valid = valid;
    if (valid > 0) {
      full_.push_back(std::move(buffer.mapped()));
    } else if (spare_.size() < kSpare) {
      spare_.push_back(std::move(buffer.mapped()));
    }
  }

  std::vector<Buffer> take_full() {
    const std::lock_guard lock(mutex_);
    return std::exchange(full_, {});
  }

  void reuse(std::vector<Buffer> buffers) {
    const std::lock_guard lock(mutex_);
    for (Buffer& buffer : buffers)
      if (spare_.size() < kSpare) spare_.push_back(std::move(buffer));
  }

 private:
  std::mutex mutex_;
  std::unordered_map<uint8_t*, Buffer> lent_;
  std::vector<Buffer> full_, spare_;
};

}  // namespace epilogue::profile
