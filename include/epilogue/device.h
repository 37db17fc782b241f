// Devices, and the queues of those that have them: streams, events, graphs, pinned memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "epilogue/tensor.h"

namespace epilogue {

struct DeviceInfo {
  std::string name;    // "NVIDIA H200"
  int processors = 0;  // cores, or multiprocessors
  int64_t memory_bytes = 0;
  int64_t cache_bytes = 0;  // the last one before memory
  // Of a CUDA device: compute capability ("9.0") and the versions of what it runs on.
  std::string capability;
  std::vector<std::pair<std::string, std::string>> libraries;  // {"driver", "13.0"}, {"cuBLASLt", "13.1.0"}
};

int device_count(DeviceType type);            // 0 where there is none; never throws
std::string why_no_devices(DeviceType type);  // "" when device_count is above 0
DeviceInfo device_info(Device device);        // throws Error when the device is not there
void synchronize(Device device = {});         // until everything launched on it has ended

// A queue of the device. Work launched by a thread goes to the stream that is current on it (the device's
// default one at first); streams run beside each other. A tensor may be used on any stream, but that what was
// written on another is there must be seen to with an Event. Not for the CPU, whose calls have ended when
// they return: the constructor throws Error there.
class Stream {
 public:
  explicit Stream(Device device);
  void synchronize() const;

 private:
  friend class StreamGuard;
  Device device_;
  std::shared_ptr<void> handle_;
};

// Makes a stream current on this thread for as long as it lives.
class StreamGuard {
 public:
  explicit StreamGuard(const Stream& stream);
  ~StreamGuard();
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;

 private:
  Device device_;
  std::shared_ptr<void> kept_;
  void* before_;
};

// A point in a stream's work.
class Event {
 public:
  explicit Event(Device device);
  void record();                                // now, on the current stream
  void wait();                                  // the current stream goes on only after it
  void synchronize() const;                     // the calling thread waits
  double elapsed_us(const Event& later) const;  // both recorded and over

 private:
  Device device_;
  std::shared_ptr<void> handle_;
};

// Work recorded once and launched again as a whole. Tensors it read and wrote stay where they are and alive
// as long as it does: write new inputs in place (copy_), replay, read the outputs.
class Graph {
 public:
  // Calls `fn` once to warm up, after what was launched before on the current stream, and once more to record
  // what it launches on this thread. It may not read values, synchronise or touch memory of the host. While
  // it is recorded synchronize(device) fails on other threads, too: wait for a stream or an event there. The
  // end of a profiler's window waits for all devices, and breaks a capture of another thread.
  static Graph capture(Device device, const std::function<void()>& fn);
  void replay() const;  // on the current stream; ordered after what was launched before

 private:
  Graph(Device device, void* handle);
  Device device_;
  std::shared_ptr<void> handle_;
};

// Host memory from which copies to a device, and into which copies from it, run while the host goes on.
Tensor empty_pinned(const Dims& sizes, DType dtype, Device device);

}  // namespace epilogue
