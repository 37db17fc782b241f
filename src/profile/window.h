// A window: the stretch in which threads record, and the trace made of it.
#pragma once

#include <cstdint>
#include <string>

#include "epilogue/profiler.h"
#include "epilogue/trace.h"
#include "profile/clock.h"

namespace epilogue::profile {

class DeviceTracer;
class TraceBuilder;

struct WindowResult {
  trace::Trace trace;
  int64_t dropped = 0;
};

// The device's part in a window: attached before it begins, where there is a device.
class DeviceTracing {
 public:
  DeviceTracing();
  // Adds the device's records, or the reason why there are none.
  void finish(TraceBuilder& builder) const;

 private:
  DeviceTracer* tracer_ = nullptr;
  std::string reason_;
};

// The device tracer stays attached from window to window, since it slows the first launches after it is
// attached. This ends it.
void detach_device_tracer() noexcept;

// Records from its construction until finish() or its end, whichever is first. One at a time, and not at the
// same time as another's finish(): the Profiler sees to that. Other threads may record all the while.
class Window {
 public:
  explicit Window(const ProfilerOptions& options);
  ~Window();
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  // The events that began in the window; those still open end with it.
  WindowResult finish();

 private:
  const DeviceTracing device_;  // first: it takes a while
  const uint32_t flags_;
  const ClockReading begin_;
  const uint64_t generation_;
};

}  // namespace epilogue::profile
