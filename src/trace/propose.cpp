#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/check.h"
#include "base/format.h"
#include "trace/expect.h"
#include "trace/observe.h"
#include "trace/print.h"

namespace epilogue::trace {
namespace {

constexpr double kGapRoom = 1.5, kMemoryRoom = 1.1, kIdleRoom = 0.1, kIdleRoomOfFew = 0.2;
constexpr size_t kFewSteps = 10;

// By how much a later run of the same may exceed a time. Of twenty runs of `profile linear --batch 1024`,
// median of three steps, on two cores with neighbours, fifteen took 15.5 to 19 us, one 34 us, and four were
// interrupted for milliseconds, which no bound forgives.
double time_room(size_t steps, int64_t ns) {
  const bool few = steps < kFewSteps, brief = ns < 100'000;
  if (few && brief) return 3;
  return few || brief ? 1.5 : 1.25;
}

// Up to three digits.
double rounded_up(double value) {
  if (value <= 0) return 0;
  const double unit = std::pow(10, std::floor(std::log10(value)) - 2);
  return unit >= 1 ? std::ceil(value / unit) * unit : std::ceil(value * 100) / 100;
}

// What TOML takes between quotes as it is.
bool is_plain(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

std::string bounds(int64_t min, int64_t max) {
  return min == max ? std::to_string(min) : fmt::format("{{min = {}, max = {}}}", min, max);
}

class Proposal {
 public:
  explicit Proposal(const Trace& trace) : seen_(observe(trace)) {
    if (trace.problems.empty()) add("", "the trace is whole", "no_problems = true");
    for (const auto& [device, peak] : seen_.memory_peaks)
      add(fmt::format("{} bytes; a tenth above", peak),
          fmt::format("memory of {} stays within bounds", device),
          fmt::format("device = {}\nmemory_peak_bytes = {{max = {:.0f}}}", json_quote(device),
                      std::ceil(kMemoryRoom * static_cast<double>(peak))));
    if (!seen_.steps.empty())
      add_of_steps();
    else if (!trace.events.empty())
      add_of_whole_trace();
  }

  std::string text() const { return text_; }

  // For the head of the file.
  std::string remark() const {
    if (seen_.steps.empty()) return "# The trace marks no steps, so that nothing is expected of a step.\n";
    if (!of_few_steps()) return fmt::format("# Bounds on times rest on {}.\n", steps());
    return fmt::format("# Bounds on times rest on {} alone and are wide: those of {} or more are closer.\n",
                       steps(), kFewSteps);
  }

 private:
  void add(const std::string& comment, const std::string& name, const std::string& line) {
    text_ += "\n[[rule]]";
    if (!comment.empty()) text_ += fmt::format("  # {}", comment);
    text_ += fmt::format("\nname = {}\n{}\n", json_quote(name), line);
  }

  void add_of_steps() {
    if (seen_.compiles.empty()) add("", "nothing is compiled in a step", "no_recompile = true");
    add_time("a step's wall time, median", "step_time_us", median_of(seen_.steps, &Step::wall_ns));
    if (seen_.untied > 0) return;
    add_kernel_counts();
    if (seen_.has_device) add_device();
    add_no_copy();
    if (!seen_.kernels.empty()) add_ops();
  }

  void add_of_whole_trace() {
    if (seen_.compiles.empty()) add("", "nothing is compiled", "no_recompile = true");
    add_no_copy();
    if (seen_.untied == 0 && !seen_.kernels.empty()) add_ops();
  }

  void add_no_copy() {
    if (seen_.has_device && seen_.copies.empty())
      add("", "no copy between host and device", "no_copy = true");
  }

  void add_time(const char* name, const char* key, int64_t ns, double least_room = 1) {
    const double us = static_cast<double>(ns) / 1e3;
    const double room = std::max(least_room, time_room(seen_.steps.size(), ns));
    add(fmt::format("{:.3f} in {}; {} times that", us, steps(), room), name,
        fmt::format("{} = {{max = {}}}", key, rounded_up(room * us)));
  }

  std::string steps() const { return counted(static_cast<int64_t>(seen_.steps.size()), "step"); }
  bool of_few_steps() const { return seen_.steps.size() < kFewSteps; }

  void add_kernel_counts() {
    if (!seen_.tells_of_kernels()) return;
    const auto [least, most] =
        std::minmax_element(seen_.steps.begin(), seen_.steps.end(),
                            [](const Step& a, const Step& b) { return a.kernels < b.kernels; });
    add("", "kernels of each step",
        fmt::format("kernels_per_step = {}", bounds(least->kernels, most->kernels)));
  }

  void add_device() {
    add_time("device time of what a step launched, median", "device_time_us",
             median_of(seen_.steps, &Step::device_busy_ns));
    const double idle = seen_.idle_share();
    const double room = of_few_steps() ? kIdleRoomOfFew : kIdleRoom;
    add(fmt::format("{:.4f} in {}; {} of the step above", idle, steps(), room), "the device is kept busy",
        fmt::format("device_idle_share = {{max = {}}}", std::min(1.0, rounded_up(idle + room))));
    add_time("no stream waits long in a step", "longest_gap_us", seen_.longest_gap_ns, kGapRoom);
  }

  void add_ops() {
    std::map<std::string_view, std::pair<int64_t, int64_t>> ops;  // least and most kernels of a call
    for (const auto& [name, calls] : seen_.calls_by_kernels) {
      const std::string_view bare = bare_op_name(name);
      const auto [at, added] = ops.try_emplace(bare_op_name(bare) == bare ? bare : name, calls.begin()->first,
                                               calls.rbegin()->first);
      if (added) continue;
      at->second.first = std::min(at->second.first, calls.begin()->first);
      at->second.second = std::max(at->second.second, calls.rbegin()->first);
    }
    for (const auto& [op, kernels] : ops)
      if (kernels.second > 0 && !op.empty() && is_plain(op))
        add("", fmt::format("kernels of each {}", op),
            fmt::format("op = {}\nkernels_per_call = {}", json_quote(std::string(op)),
                        bounds(kernels.first, kernels.second)));
  }

  const Observed seen_;
  std::string text_;
};

}  // namespace

std::string propose_rules(const Trace& trace) {
  EP_CHECK(!trace.damaged, "{}: is damaged: no rule can be proposed from what is left of it", trace.source);
  EP_CHECK(!trace.events.empty() || !trace.memories.empty(), "{}: no rule can be proposed: it holds no event",
           trace.source);
  const Proposal proposal(trace);
  const std::string rules = proposal.text();
  EP_CHECK(!rules.empty(), "{}: no rule can be proposed: it marks no steps and has problems", trace.source);
  return fmt::format(
      "# Proposed by `epilogue trace expect --write`{}. Keep what matters.\n"
      "# A number is met exactly; {{min = ..., max = ...}} are bounds. docs/expect.md lists the keys.\n{}{}",
      is_plain(trace.source) ? fmt::format(" from {}", trace.source) : "", proposal.remark(), rules);
}

}  // namespace epilogue::trace
