#include "epilogue/profiler.h"

#include <atomic>
#include <exception>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "profile/event.h"
#include "profile/window.h"
#include "trace/op_table.h"

namespace epilogue {
namespace {

std::atomic<const Profiler*> running_profiler{nullptr};

bool records(ProfilerAction action) {
  return action == ProfilerAction::record || action == ProfilerAction::record_and_save;
}

}  // namespace

struct Profiler::Impl {
  ProfilerOptions options;
  int64_t step = 0;
  bool in_callback = false;  // on_trace_ready's, from step()
  ProfilerAction action = ProfilerAction::none;
  std::optional<profile::Window> window;
  profile::Slot* step_event = nullptr;
  std::optional<profile::WindowResult> last;

  ProfilerAction action_now() const {
    return options.schedule ? options.schedule->action(step) : ProfilerAction::record;
  }

  void close_step() { profile::close_event(std::exchange(step_event, nullptr)); }

  // The warm-up records too, into a window that is thrown away: it touches the buffers' memory.
  void enter(ProfilerAction next) {
    const bool recorded = records(std::exchange(action, next));
    if (next == ProfilerAction::none || (records(next) && !recorded)) window.reset();
    if (next == ProfilerAction::none) profile::detach_device_tracer();
    if (next != ProfilerAction::none && !window) window.emplace(options);
    if (records(next) && options.schedule)
      step_event =
          profile::open_event(trace::EventKind::user_annotation, fmt::format("ProfilerStep#{}", step));
  }

  void end() {
    window.reset();
    profile::detach_device_tracer();
  }

  void finish_window() {
    last = window->finish();
    window.reset();
  }

  const profile::WindowResult& complete(const char* what) const {
    EP_CHECK(last, "Profiler::{}: no window is complete yet", what);
    return *last;
  }
};

Profiler::Profiler(ProfilerOptions options) : impl_(std::make_unique<Impl>()) {
  impl_->options = std::move(options);
}

Profiler::~Profiler() {
  if (running_profiler.load() != this) return;
  impl_->close_step();
  impl_->end();
  running_profiler.store(nullptr);
}

void Profiler::start() {
  // Before anything changes: a bad schedule throws here.
  const ProfilerAction first =
      impl_->options.schedule ? impl_->options.schedule->action(0) : ProfilerAction::record;
  const Profiler* running = nullptr;
  EP_CHECK(running_profiler.compare_exchange_strong(running, this),
           "Profiler::start: {} is running already, stop it first",
           running == this ? "this profiler" : "another profiler");
  impl_->step = 0;
  impl_->action = ProfilerAction::none;
  impl_->enter(first);
}

void Profiler::step() {
  EP_CHECK(running_profiler.load() == this, "Profiler::step: the profiler is not running, start it first");
  EP_CHECK(!impl_->in_callback, "Profiler::step: called from on_trace_ready, which step() itself calls");
  impl_->close_step();
  const bool ready = impl_->action == ProfilerAction::record_and_save;
  if (ready) impl_->finish_window();
  ++impl_->step;
  std::exception_ptr error;
  if (ready && impl_->options.on_trace_ready) {
    impl_->in_callback = true;
    try {
      impl_->options.on_trace_ready(*this);
    } catch (...) {
      error = std::current_exception();
    }
    impl_->in_callback = false;
  }
  if (running_profiler.load() == this) impl_->enter(impl_->action_now());  // the callback may have stopped it
  if (error) std::rethrow_exception(error);
}

void Profiler::stop() {
  EP_CHECK(running_profiler.load() == this, "Profiler::stop: the profiler is not running, start it first");
  impl_->close_step();
  const bool ready = impl_->window && records(impl_->action);
  if (ready) impl_->finish_window();
  impl_->end();
  running_profiler.store(nullptr);
  if (ready && impl_->options.on_trace_ready) impl_->options.on_trace_ready(*this);
}

const trace::Trace& Profiler::trace() const { return impl_->complete("trace").trace; }

KeyAverages Profiler::key_averages(bool group_by_shape) const {
  const profile::WindowResult& window = impl_->complete("key_averages");
  KeyAverages averages = trace::key_averages(
      window.trace, {.group_by_shape = group_by_shape, .with_flops = impl_->options.with_flops});
  averages.dropped = window.dropped;
  return averages;
}

void Profiler::export_chrome_trace(const std::string& path) const {
  trace::write_trace(impl_->complete("export_chrome_trace").trace, path);
}

int64_t Profiler::dropped() const { return impl_->complete("dropped").dropped; }

}  // namespace epilogue
