// Traces made by hand, for tests.
#pragma once

#include <string_view>

#include "epilogue/trace.h"
#include "trace/links.h"
#include "trace/steps.h"

namespace epilogue::trace {

inline Event event(EventKind kind, StringId name, int64_t start_us, int64_t duration_us, uint32_t track = 0) {
  Event e;
  e.kind = kind;
  e.name = name;
  e.start_ns = start_us * 1000;
  e.duration_ns = duration_us * 1000;
  e.track = track;
  return e;
}

// One step of 100 us on thread 0; kernels are launched by calls of 1 us and run on track 1.
struct Synthetic {
  Trace trace;
  uint32_t correlation = 0;

  Synthetic() {
    trace.tracks = {{.process = 1, .thread = 1}, {.process = 0, .thread = 7, .device = true}};
    trace.events.push_back(event(EventKind::user_annotation, name("ProfilerStep#1"), 0, 100));
  }
  StringId name(std::string_view text) { return trace.strings.intern(text); }
  void op(int64_t start, int64_t duration) {
    trace.events.push_back(event(EventKind::cpu_op, name("aten::mm"), start, duration));
  }
  void call(std::string_view what, int64_t start, int64_t duration) {
    trace.events.push_back(event(EventKind::cuda_runtime, name(what), start, duration));
  }
  void kernel(int64_t launched, int64_t start, int64_t duration) {
    call("cudaLaunchKernel", launched, 1);
    trace.events.back().correlation = ++correlation;
    trace.events.push_back(event(EventKind::kernel, name("k"), start, duration, 1));
    trace.events.back().correlation = correlation;
  }
  Step step() {
    order_events(trace);
    return find_steps(trace, launching_calls(trace)).at(0);
  }
};

}  // namespace epilogue::trace
