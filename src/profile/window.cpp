#include "profile/window.h"

#include <string>
#include <utility>

#include "profile/buffer.h"
#include "profile/device_tracer.h"
#include "profile/event.h"
#include "profile/trace_builder.h"

namespace epilogue::profile {
namespace {

uint32_t recording_flags(const ProfilerOptions& options) {
  return kRecordEvents | (options.record_shapes ? kRecordShapes : 0) |
         (options.profile_memory ? kRecordMemory : 0) | (options.with_flops ? kRecordFlops : 0);
}

uint64_t next_generation(uint64_t max_events_per_thread) {
  window_limit.store(max_events_per_thread, std::memory_order_relaxed);
  return window_generation.fetch_add(1, std::memory_order_release) + 1;
}

}  // namespace

DeviceTracing::DeviceTracing() {
  DeviceTracerOrReason found = find_device_tracer();
  reason_ = std::move(found.reason);
  if (!found.tracer) return;
  try {
    found.tracer->attach();
    tracer_ = found.tracer;
  } catch (const Error& error) {
    reason_ = error.what();
  }
}

void DeviceTracing::finish(TraceBuilder& builder) const {
  constexpr const char* kNotSeen = "GPU kernels are not seen: ";
  if (tracer_) return builder.add_device(tracer_->take());
  if (!reason_.empty()) return builder.add_problem(kNotSeen + reason_);
  if (const DeviceTracerOrReason now = find_device_tracer(); now.tracer || !now.reason.empty())
    builder.add_problem(std::string(kNotSeen) + "the device was first used after the window had begun");
}

void detach_device_tracer() noexcept {
  if (DeviceTracer* tracer = find_device_tracer().tracer) tracer->detach();
}

Window::Window(const ProfilerOptions& options)
    : flags_(recording_flags(options)),
      begin_(read_clocks()),
      generation_(next_generation(options.max_events_per_thread)) {
  recording.store(flags_, std::memory_order_release);
}

Window::~Window() { recording.store(0, std::memory_order_release); }

WindowResult Window::finish() {
  recording.store(0, std::memory_order_release);
  TraceBuilder builder(flags_, begin_, read_clocks());
  device_.finish(builder);
  collect_buffers(generation_, [&](const ThreadBuffer& buffer, const std::string& thread_name) {
    builder.add_thread(buffer, thread_name);
  });
  return builder.finish();
}

}  // namespace epilogue::profile
