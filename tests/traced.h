// What a call ran, by a profile of it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "epilogue/profiler.h"

namespace epilogue {

// Names in the order of the trace: kernels of the CPU, or a device's, which `run` must have waited for.
inline std::vector<std::string> kernels_of(const std::function<void()>& run,
                                           trace::EventKind kind = trace::EventKind::cpu_kernel) {
  Profiler profiler;
  profiler.start();
  run();
  profiler.stop();
  std::vector<std::string> names;
  for (const trace::Event& event : profiler.trace().events)
    if (event.kind == kind) names.emplace_back(profiler.trace().name(event));
  return names;
}

}  // namespace epilogue
