#include "trace/steps.h"

#include <algorithm>

#include <fmt/format.h>

#include "trace/links.h"
#include "trace/spread.h"

namespace epilogue::trace {
namespace {

constexpr double kBusyShare = 0.8, kSyncShare = 0.3, kOpsShare = 0.5;

double share(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

// Adds up the union of intervals that come in the order of their starts.
struct Union {
  int64_t total = 0, end = INT64_MIN;
  void add(int64_t from, int64_t to) {
    from = std::max(from, end);
    if (to > from) total += to - from;
    end = std::max(end, to);
  }
};

struct Measured {
  uint32_t track = 0;
  Union device, host, sync;
  bool untied = false;  // device work that no launch explains, or a launched graph whose work is missing
};

class StepFinder {
 public:
  StepFinder(const Trace& trace, const std::vector<uint32_t>& launches) : trace_(trace), launches_(launches) {
    for (const Event& event : trace.events) {
      has_device_ |= is_device_work(event.kind);
      if (!is_step(trace, event)) continue;
      steps_.push_back(
          {.name = std::string(trace.name(event)), .start_ns = event.start_ns, .wall_ns = event.duration_ns});
      measured_.push_back({.track = event.track});
    }
    is_sync_.resize(trace.strings.size());
    is_graph_launch_.resize(trace.strings.size());
    for (StringId id = 0; id < trace.strings.size(); ++id) {
      is_sync_[id] = trace.strings[id].find("Synchronize") != std::string_view::npos;
      is_graph_launch_[id] = trace.strings[id].find("GraphLaunch") != std::string_view::npos;
    }
  }

  std::vector<Step> find() {
    if (steps_.empty()) return {};
    started_.resize(trace_.events.size());
    for (const uint32_t launch : launches_)
      if (launch != kNoEvent) started_[launch] = 1;
    for (size_t i = 0; i < trace_.events.size(); ++i) add(i);
    for (size_t s = 0; s < steps_.size(); ++s) {
      Step& step = steps_[s];
      step.device_busy_ns = measured_[s].device.total;
      step.device_idle_ns = std::max<int64_t>(0, step.wall_ns - step.device_busy_ns);
      step.host_ops_ns = measured_[s].host.total - measured_[s].sync.total;
      step.sync_ns = measured_[s].sync.total;
      step.regime = decide(step, measured_[s]);
    }
    return std::move(steps_);
  }

 private:
  void add(size_t i) {
    const Event& event = trace_.events[i];
    if (is_device_work(event.kind)) {
      const bool tied = launches_[i] != kNoEvent;
      Measured* at = step_at(tied ? trace_.events[launches_[i]].start_ns : event.start_ns);
      if (!at) return;
      at->untied |= !tied;
      if (!tied) return;
      at->device.add(event.start_ns, event.end_ns());
      if (event.kind == EventKind::kernel) ++steps_[static_cast<size_t>(at - measured_.data())].kernels;
    } else if (event.kind == EventKind::cpu_kernel) {
      Measured* at = has_device_ ? nullptr : step_at(event.start_ns);
      if (!at) return;
      at->device.add(event.start_ns, event.end_ns());
      ++steps_[static_cast<size_t>(at - measured_.data())].kernels;
    } else if (event.kind == EventKind::cpu_op || is_runtime_call(event.kind)) {
      Measured* at = step_at(event.start_ns);
      if (!at || at->track != event.track) return;
      at->host.add(event.start_ns, event.end_ns());
      if (is_sync_[event.name]) at->sync.add(event.start_ns, event.end_ns());
      at->untied |= is_graph_launch_[event.name] && !started_[i];
    }
  }

  Measured* step_at(int64_t ns) {
    const uint32_t step = search_.at(ns);
    return step == kNoEvent ? nullptr : &measured_[step];
  }

  Regime decide(const Step& step, const Measured& measured) const {
    if (measured.untied) return Regime::incomplete;
    if (!has_device_ && trace_.damaged && !trace_.devices.empty()) return Regime::incomplete;
    if (!has_device_) return Regime::cpu;
    if (share(step.device_busy_ns, step.wall_ns) >= kBusyShare) return Regime::device_bound;
    if (share(step.sync_ns, step.wall_ns) >= kSyncShare) return Regime::waiting_on_sync;
    return share(step.host_ops_ns, step.wall_ns) >= kOpsShare ? Regime::launch_bound : Regime::host_bound;
  }

  const Trace& trace_;
  const std::vector<uint32_t>& launches_;
  std::vector<Step> steps_;
  std::vector<Measured> measured_;                  // by step
  std::vector<uint8_t> is_sync_, is_graph_launch_;  // by name
  std::vector<uint8_t> started_;                    // by event: it launched device work
  StepSearch search_{steps_};
  bool has_device_ = false;
};

}  // namespace

uint32_t StepSearch::at(int64_t ns) {
  if (last_ < steps_.size() && holds(last_, ns)) return static_cast<uint32_t>(last_);
  const auto after = std::upper_bound(steps_.begin(), steps_.end(), ns,
                                      [](int64_t t, const Step& step) { return t < step.start_ns; });
  if (after == steps_.begin()) return kNoEvent;
  const auto step = static_cast<size_t>(after - steps_.begin()) - 1;
  if (!holds(step, ns)) return kNoEvent;
  last_ = step;
  return static_cast<uint32_t>(step);
}

int64_t median_of(const std::vector<Step>& steps, int64_t Step::*member) {
  std::vector<int64_t> values;
  for (const Step& step : steps) values.push_back(step.*member);
  return median_of(std::move(values));
}

const char* regime_name(Regime regime) {
  switch (regime) {
    case Regime::launch_bound:
      return "launch-bound";
    case Regime::device_bound:
      return "device-bound";
    case Regime::waiting_on_sync:
      return "waiting on sync";
    case Regime::host_bound:
      return "host-bound";
    case Regime::cpu:
      return "cpu";
    case Regime::incomplete:
      return "incomplete";
  }
  return "";
}

std::string Step::reason() const {
  const auto percent = [&](int64_t part) { return 100 * share(part, wall_ns); };
  if (regime == Regime::cpu) return fmt::format("kernels run {:.0f}% of the step", percent(device_busy_ns));
  return fmt::format(
      "device busy {:.0f}%, host {:.0f}% in ops and launches, {:.0f}% waiting{}", percent(device_busy_ns),
      percent(host_ops_ns), percent(sync_ns),
      regime == Regime::incomplete ? "; some device work is missing or cannot be tied to its launch" : "");
}

std::vector<Step> find_steps(const Trace& trace, const std::vector<uint32_t>& launches) {
  return StepFinder(trace, launches).find();
}

}  // namespace epilogue::trace
