// A window: the stretch in which threads record, and the trace made of it.
#pragma once

#include <cstdint>

#include "epilogue/profiler.h"
#include "epilogue/trace.h"
#include "profile/clock.h"

namespace epilogue::profile {

struct WindowResult {
  trace::Trace trace;
  int64_t dropped = 0;
};

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
  const uint32_t flags_;
  const ClockReading begin_;
  const uint64_t generation_;
};

}  // namespace epilogue::profile
