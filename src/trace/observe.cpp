#include "trace/observe.h"

#include <algorithm>

#include "trace/gaps.h"
#include "trace/kernel_name.h"
#include "trace/names.h"
#include "trace/spread.h"
#include "trace/summary.h"

namespace epilogue::trace {
namespace {

// PyTorch's compiler marks its phases so; a "Torch-Compiled Region" is a run of what was compiled before.
bool says_compile(std::string_view name) { return name.ends_with("(dynamo_timed)"); }

class Observer {
 public:
  explicit Observer(const Trace& trace)
      : trace_(trace), launches_(launching_calls(trace)), kernels_of_(trace.events.size()) {
    const Summary summary = summarise(trace);
    seen_.steps = summary.steps;
    seen_.has_device = summary.ops.has_device;
    seen_.memory_peaks = memory_peaks(summary);
    places_ = place_events(trace, launches_, seen_.steps);
    seen_.untied = seen_.steps.empty() ? count_untied_from(INT64_MIN, trace, launches_)
                                       : count_untied(trace, launches_, seen_.steps);
  }

  Observed observe() {
    for (uint32_t i = 0; i < trace_.events.size(); ++i) add(i);
    for (uint32_t i = 0; i < trace_.events.size(); ++i)
      if (trace_.events[i].kind == EventKind::cpu_op && counts(i))
        ++seen_.calls_by_kernels[trace_.name(trace_.events[i])][kernels_of_[i]];
    if (!seen_.steps.empty()) find_longest_gap();
    return std::move(seen_);
  }

 private:
  bool counts(uint32_t i) const { return seen_.steps.empty() || places_[i].step != kNoEvent; }

  void find_longest_gap() {
    StepSearch search(seen_.steps);
    for (const Gap& gap : find_unexplained_gaps(trace_)) {
      const uint32_t step = places_[gap.ended_by].step;
      if (step == kNoEvent || search.at(gap.start_ns) != step) continue;
      seen_.longest_gap_ns = gap.duration_ns;
      break;  // they come longest first
    }
  }

  void add(uint32_t i) {
    const Event& event = trace_.events[i];
    if (!counts(i)) return;
    const std::string_view name = trace_.name(event);
    if (is_kernel(event.kind)) {
      if (const auto [at, added] = seen_.kernels.try_emplace(name); added) at->second = short_name(name);
      for (uint32_t op = places_[i].op; op != kNoEvent; op = places_[op].op) ++kernels_of_[op];
    } else if (event.kind == EventKind::gpu_memcpy) {
      if (is_copy_to_host(name) || is_copy_from_host(name)) ++seen_.copies[name];
    } else if (says_compile(name)) {
      ++seen_.compiles[name];
    }
  }

  const Trace& trace_;
  std::vector<uint32_t> launches_;
  std::vector<Placement> places_;
  std::vector<int64_t> kernels_of_;  // by event, for ops
  Observed seen_;
};

}  // namespace

double Observed::idle_share() const {
  std::vector<double> shares;
  for (const Step& step : steps)
    shares.push_back(
        step.wall_ns > 0 ? static_cast<double>(step.device_idle_ns) / static_cast<double>(step.wall_ns) : 0);
  return median_of(std::move(shares));
}

Observed observe(const Trace& trace) { return Observer(trace).observe(); }

}  // namespace epilogue::trace
