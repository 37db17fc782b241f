// What records a device's work while a window is open. The library knows this interface alone; the one
// implementation (cupti.cpp) is a module of its own, loaded when a window opens in a process that uses a
// device.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "epilogue/trace.h"

namespace epilogue::profile {

// One thing that happened, on a device or in the calls that drive it. Times are ticks of the profiler's
// clock.
struct DeviceRecord {
  trace::EventKind kind = trace::EventKind::other;  // kernel, gpu_memcpy, gpu_memset, cuda_runtime,
                                                    // cuda_driver, cuda_sync or overhead
  uint64_t start = 0, end = 0;
  trace::StringId name = 0;  // into DeviceRecords::names
  uint32_t correlation = 0;  // joins a call and the work it launched; 0: none
  int32_t device = 0;        // of device work and waits
  int64_t lane = 0;          // the stream; for calls and overhead the thread, as gettid() numbers it
  uint32_t detail = trace::kNoDetail;  // kernel: into launches; copies: into copies; calls: the callback id
};

struct DeviceRecords {
  std::vector<DeviceRecord> records;
  trace::StringTable names;
  std::vector<trace::Launch> launches;
  std::vector<trace::Copy> copies;  // their bytes
  std::vector<trace::DeviceProperties> devices;
  std::vector<std::pair<std::string, std::string>> metadata;  // as Trace::metadata
  std::vector<trace::Problem> problems;
  int64_t dropped = 0;
};

// Called by one thread at a time, while others may use the device.
class DeviceTracer {
 public:
  virtual ~DeviceTracer() = default;

  // Begins to record, unless it does already. Throws Error with the reason when it cannot.
  virtual void attach() = 0;
  // Waits for the devices and hands over what was recorded since attach() or the last take(); goes on
  // recording. What went wrong is in the problems.
  virtual DeviceRecords take() = 0;
  // Ends recording and forgets what was not taken; launches cost what they did before attach().
  virtual void detach() noexcept = 0;
};

// The process's tracer, or the reason why there is none; neither while no device is in use.
struct DeviceTracerOrReason {
  DeviceTracer* tracer = nullptr;
  std::string reason;
};
DeviceTracerOrReason find_device_tracer();

// Puts a tracer in the module's place; null: the module's again. For tests, while no window is open.
void set_device_tracer(DeviceTracer* tracer);

// What the module exports, with C linkage; its tracer lives as long as the process.
inline constexpr const char* kDeviceTracerModule = "libepilogue_cupti.so";
inline constexpr const char* kDeviceTracerFunction = "epilogue_device_tracer";
using DeviceTracerFunction = DeviceTracer*();

}  // namespace epilogue::profile
