#include "trace/steps.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "trace/intervals.h"
#include "trace/links.h"
#include "trace/names.h"
#include "trace/spread.h"

namespace epilogue::trace {
namespace {

constexpr double kPauseShare = 0.05, kIdleShare = 0.2, kSyncShare = 0.3, kOpsShare = 0.5;

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

// Never without work but for the pauses between kernels; or with work most of the time, while the host waited
// for it longer than it for the host. What it is behind by at the step's end the host will have to wait.
bool is_device_bound(const Step& step) {
  if (step.wall_ns <= 0) return false;
  const double idle = share(step.device_idle_ns, step.wall_ns);
  const int64_t behind_ns = std::max<int64_t>(0, step.device_busy_ns - step.wall_ns);
  return idle <= kPauseShare || (idle <= kIdleShare && step.sync_ns + behind_ns >= step.device_idle_ns);
}

struct ThreadTime {
  uint32_t track = 0;
  Intervals host, waiting;  // in ops and calls; of these in calls that wait for the device
};

struct Measured {
  std::vector<Union> launched;      // by device
  std::vector<ThreadTime> threads;  // backward runs on one of its own
  bool untied = false;  // device work that no launch explains, or a launched graph whose work is missing

  ThreadTime& thread(uint32_t track) {
    const auto at = std::ranges::find(threads, track, &ThreadTime::track);
    return at == threads.end() ? threads.emplace_back(ThreadTime{.track = track}) : *at;
  }
};

// The host works while any thread does, and waits while one waits and none works.
void set_host_time(Step& step, const Measured& measured) {
  std::vector<Intervals> working, waiting;
  for (const ThreadTime& thread : measured.threads) {
    working.push_back(thread.host.without(thread.waiting));
    waiting.push_back(thread.waiting);
  }
  const Intervals works = Intervals::united(working);
  step.host_ops_ns = works.total();
  step.sync_ns = Intervals::united(waiting).without(works).total();
}

std::vector<Step> marked_steps(const Trace& trace) {
  std::vector<Step> steps;
  for (const Event& event : trace.events)
    if (is_step(trace, event))
      steps.push_back(
          {.name = std::string(trace.name(event)), .start_ns = event.start_ns, .wall_ns = event.duration_ns});
  return steps;
}

class StepFinder {
 public:
  StepFinder(const Trace& trace, const std::vector<uint32_t>& launches)
      : trace_(trace), launches_(launches), steps_(marked_steps(trace)) {
    number_devices();
    measured_.resize(steps_.size(), {.launched = std::vector<Union>(ran_.size())});
    is_sync_.resize(trace.strings.size());
    is_graph_launch_.resize(trace.strings.size());
    is_async_.resize(trace.strings.size());
    for (StringId id = 0; id < trace.strings.size(); ++id) {
      is_sync_[id] = trace.strings[id].find("Synchronize") != std::string_view::npos;
      is_async_[id] = trace.strings[id].find("Async") != std::string_view::npos;
      is_graph_launch_[id] = trace.strings[id].find("GraphLaunch") != std::string_view::npos;
    }
  }

  std::vector<Step> find() {
    if (steps_.empty()) return {};
    started_.resize(trace_.events.size());
    waited_.resize(trace_.events.size());
    for (size_t i = 0; i < launches_.size(); ++i) {
      if (launches_[i] == kNoEvent) continue;
      started_[launches_[i]] = 1;
      waited_[launches_[i]] |= is_waited_for(trace_.events[i], trace_.events[launches_[i]]);
    }
    for (size_t i = 0; i < trace_.events.size(); ++i) add(i);
    for (size_t s = 0; s < steps_.size(); ++s) {
      Step& step = steps_[s];
      step.damaged = trace_.damaged;
      choose_device(step, measured_[s]);
      set_host_time(step, measured_[s]);
      step.regime = decide(step, measured_[s]);
    }
    return std::move(steps_);
  }

 private:
  // Devices in the order of their numbers; without any, the CPU's kernels take the place of the first.
  void number_devices() {
    const std::set<int64_t> working = working_devices(trace_);
    devices_.assign(working.begin(), working.end());
    has_device_ = !devices_.empty();
    ran_.resize(std::max<size_t>(1, devices_.size()));
    device_of_track_.resize(trace_.tracks.size());
    for (size_t track = 0; track < trace_.tracks.size(); ++track)
      if (const auto at = std::ranges::find(devices_, trace_.tracks[track].process); at != devices_.end())
        device_of_track_[track] = static_cast<size_t>(at - devices_.begin());
  }

  // A copy that its call returned after. One to the host does so also where the call is named Async; any
  // other so named may be over by chance.
  bool is_waited_for(const Event& copy, const Event& call) const {
    return copy.kind == EventKind::gpu_memcpy && copy.end_ns() <= call.end_ns() &&
           (!is_async_[call.name] || is_copy_to_host(trace_.name(copy)));
  }

  void choose_device(Step& step, const Measured& measured) const {
    const auto ran = [&](size_t d) { return ran_[d].within(step.start_ns, step.start_ns + step.wall_ns); };
    const auto worked = [&](size_t d) { return std::pair(measured.launched[d].total, ran(d)); };
    size_t busiest = 0;
    for (size_t d = 1; d < ran_.size(); ++d)
      if (worked(d) > worked(busiest)) busiest = d;
    step.device_busy_ns = measured.launched[busiest].total;
    step.device_idle_ns = step.wall_ns - ran(busiest);
    step.device = has_device_ ? devices_[busiest] : 0;
    step.devices = static_cast<int64_t>(devices_.size());
  }

  void add(size_t i) {
    const Event& event = trace_.events[i];
    if (event.kind == EventKind::cpu_kernel ? !has_device_ : is_device_work(event.kind))
      ran_[device_of_track_[event.track]].add(event.start_ns, event.end_ns());
    if (is_device_work(event.kind)) {
      const bool tied = launches_[i] != kNoEvent;
      Measured* at = step_at(tied ? trace_.events[launches_[i]].start_ns : event.start_ns);
      if (!at) return;
      at->untied |= !tied;
      if (!tied) return;
      at->launched[device_of_track_[event.track]].add(event.start_ns, event.end_ns());
      if (event.kind == EventKind::kernel) ++steps_[static_cast<size_t>(at - measured_.data())].kernels;
    } else if (event.kind == EventKind::cpu_kernel) {
      Measured* at = has_device_ ? nullptr : step_at(event.start_ns);
      if (!at) return;
      at->launched[0].add(event.start_ns, event.end_ns());
      ++steps_[static_cast<size_t>(at - measured_.data())].kernels;
    } else if (event.kind == EventKind::cpu_op || is_runtime_call(event.kind)) {
      Measured* at = step_at(event.start_ns);
      if (!at) return;
      ThreadTime& thread = at->thread(event.track);
      thread.host.add(event.start_ns, event.end_ns());
      if (is_sync_[event.name] || waited_[i]) thread.waiting.add(event.start_ns, event.end_ns());
      at->untied |= is_graph_launch_[event.name] && !started_[i];
    }
  }

  Measured* step_at(int64_t ns) {
    const uint32_t step = search_.at(ns);
    return step == kNoEvent ? nullptr : &measured_[step];
  }

  Regime decide(const Step& step, const Measured& measured) const {
    if (measured.untied || step.damaged) return Regime::incomplete;
    if (!has_device_) return Regime::cpu;
    if (is_device_bound(step)) return Regime::device_bound;
    if (share(step.sync_ns, step.wall_ns) >= kSyncShare) return Regime::waiting_on_sync;
    return share(step.host_ops_ns, step.wall_ns) >= kOpsShare ? Regime::launch_bound : Regime::host_bound;
  }

  const Trace& trace_;
  const std::vector<uint32_t>& launches_;
  std::vector<Step> steps_;
  std::vector<Measured> measured_;                             // by step
  std::vector<int64_t> devices_;                               // the numbers of those that work
  std::vector<size_t> device_of_track_;                        // into devices_
  std::vector<Intervals> ran_;                                 // by device: everything, in steps or not
  std::vector<uint8_t> is_sync_, is_graph_launch_, is_async_;  // by name
  std::vector<uint8_t> started_, waited_;  // by event: it launched device work; it waited for its copy
  StepSearch search_{steps_};
  bool has_device_ = false;
};

}  // namespace

StepSearch::StepSearch(const std::vector<Step>& steps) : steps_(steps) {
  for (const Step& step : steps)
    latest_end_.push_back(
        std::max(step.start_ns + step.wall_ns, latest_end_.empty() ? INT64_MIN : latest_end_.back()));
}

uint32_t StepSearch::at(int64_t ns) {
  const bool before_next = last_ + 1 >= steps_.size() || ns < steps_[last_ + 1].start_ns;
  if (last_ < steps_.size() && before_next && holds(last_, ns)) return static_cast<uint32_t>(last_);
  const auto after = std::upper_bound(steps_.begin(), steps_.end(), ns,
                                      [](int64_t t, const Step& step) { return t < step.start_ns; });
  for (auto step = static_cast<size_t>(after - steps_.begin()); step-- > 0 && ns < latest_end_[step];)
    if (holds(step, ns)) return static_cast<uint32_t>(last_ = step);
  return kNoEvent;
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

std::string regime_meaning(Regime regime) {
  switch (regime) {
    case Regime::launch_bound:
      return fmt::format(
          "the device waits for the host, which is in ops and launches for at least {:.0f}% of the step",
          100 * kOpsShare);
    case Regime::device_bound:
      return fmt::format(
          "the device is idle for at most {:.0f}% of the step; or for at most {:.0f}%, and the host waited "
          "for the device, or was ahead of it, at least as long",
          100 * kPauseShare, 100 * kIdleShare);
    case Regime::waiting_on_sync:
      return fmt::format("the host waits for the device for at least {:.0f}% of the step", 100 * kSyncShare);
    case Regime::host_bound:
      return fmt::format(
          "the device waits for the host, which is in ops and launches for less than {:.0f}% of the step",
          100 * kOpsShare);
    case Regime::cpu:
      return "no device works, the step runs on the CPU";
    case Regime::incomplete:
      return "some device work is missing or cannot be tied to its launch";
  }
  return "";
}

Regime regime_of(const std::vector<Step>& steps) {
  std::map<Regime, int64_t> counts;
  for (const Step& step : steps) ++counts[step.regime];
  Regime most = steps.back().regime;
  for (size_t s = steps.size(); s-- > 0;)
    if (counts[steps[s].regime] > counts[most]) most = steps[s].regime;
  return most;
}

std::string Step::reason() const {
  const auto percent = [&](int64_t part) { return 100 * share(part, wall_ns); };
  const int64_t ran_ns = wall_ns - device_idle_ns;
  if (regime == Regime::cpu) return fmt::format("kernels run {:.0f}% of the step", percent(ran_ns));
  const std::string seen =
      fmt::format("{} busy {:.0f}% of the step, host {:.0f}% in ops and launches, {:.0f}% waiting",
                  devices > 1    ? gpu_name(device)
                  : devices == 1 ? "device"
                                 : "kernels",
                  percent(ran_ns), percent(host_ops_ns), percent(sync_ns));
  if (damaged) return fmt::format("the trace is damaged, events may be missing; of those left: {}", seen);
  return regime == Regime::incomplete ? fmt::format("{}; {}", seen, regime_meaning(regime)) : seen;
}

Origin origin_of(const Trace& trace) {
  for (const Event& event : trace.events)
    if (is_step(trace, event)) return {event.start_ns, true};
  const auto first = std::ranges::find_if(trace.events, [](const Event& e) { return is_slice(e.kind); });
  return {first == trace.events.end() ? 0 : first->start_ns, false};
}

std::vector<Step> find_steps(const Trace& trace, const std::vector<uint32_t>& launches) {
  return StepFinder(trace, launches).find();
}

}  // namespace epilogue::trace
