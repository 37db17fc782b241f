#include "trace/gaps.h"

#include <algorithm>
#include <functional>
#include <map>
#include <span>
#include <unordered_map>

#include <fmt/format.h>

#include "base/format.h"
#include "trace/intervals.h"
#include "trace/kernel_name.h"
#include "trace/names.h"
#include "trace/numbers.h"
#include "trace/print.h"
#include "trace/steps.h"

namespace epilogue::trace {
namespace {

class GapFinder {
 public:
  explicit GapFinder(const Trace& trace)
      : trace_(trace),
        launches_(launching_calls(trace)),
        steps_(find_steps(trace, launches_)),
        host_(trace.tracks.size()),
        around_(trace.tracks.size()),
        outlasting_(trace.tracks.size()) {
    for (uint32_t i = 0; i < trace.events.size(); ++i) {
      const Event& event = trace.events[i];
      has_device_ |= is_device_work(event.kind);
      has_cpu_kernels_ |= event.kind == EventKind::cpu_kernel;
      if (!is_host_slice(event.kind) && event.kind != EventKind::python_function) continue;
      add_slice(event.track, i);
      if (event.kind == EventKind::cpu_op && event.external_id != 0) op_by_id_.emplace(event.external_id, i);
    }
  }

  bool has_kernels() const { return has_device_ || has_cpu_kernels_; }

  struct Found {
    std::vector<Gap> gaps;
    int64_t worked_ns = 0;  // between them, before and after
  };

  Found find() const {
    Found found = has_device_ ? between_work() : between_cpu_kernels();
    std::stable_sort(found.gaps.begin(), found.gaps.end(),
                     [](const Gap& a, const Gap& b) { return a.duration_ns > b.duration_ns; });
    return found;
  }

  // All of them, explained.
  Found explained() const {
    Found found = find();
    for (Gap& gap : found.gaps) explain(gap);
    return found;
  }

  GapSum sum(const Found& found) const {
    GapSum sum{.gaps = static_cast<int64_t>(found.gaps.size()), .window_ns = found.worked_ns};
    std::map<std::string_view, GapSum::Host> hosts;
    for (const Gap& gap : found.gaps) {
      add_saturated(sum.idle_ns, gap.duration_ns);
      GapSum::Host& host = hosts[host_of(gap)];
      ++host.gaps;
      add_saturated(host.idle_ns, gap.duration_ns);
    }
    add_saturated(sum.window_ns, sum.idle_ns);
    for (auto& [name, host] : hosts) {
      host.name = name;
      sum.by_host.push_back(std::move(host));
    }
    std::ranges::stable_sort(sum.by_host, std::ranges::greater(), &GapSum::Host::idle_ns);
    return sum;
  }

  FirstWait first_wait() const {
    FirstWait wait{.of_device = has_device_};
    if (steps_.empty()) return wait;
    StepSearch search(steps_);
    uint32_t last = kNoEvent;  // the step whose first kernel was seen last
    for (const Event& event : trace_.events) {
      if (has_device_ ? !is_device_work(event.kind) : event.kind != EventKind::cpu_kernel) continue;
      const uint32_t step = has_device_ ? 0 : search.at(event.start_ns);
      if (step == kNoEvent || step == last) continue;
      last = step;
      wait.longest_ns = std::max(wait.longest_ns, event.start_ns - steps_[step].start_ns);
    }
    return wait;
  }

  // In which it begins; null: none.
  const Step* step_of(const Gap& gap) const {
    const uint32_t step = search_.at(gap.start_ns);
    return step == kNoEvent ? nullptr : &steps_[step];
  }

 private:
  static constexpr int64_t kNever = INT64_MIN;

  std::string_view host_of(const Gap& gap) const {
    if (gap.host == kNoEvent || 2 * gap.unrecorded_ns > gap.duration_ns) return "";
    const Event& host = trace_.events[gap.host];
    return is_step(trace_, host) ? "" : trace_.name(host);
  }

  Found between_work() const {
    Found found;
    std::vector<int64_t> busy_until(trace_.tracks.size(), kNever);
    for (uint32_t i = 0; i < trace_.events.size(); ++i)
      if (is_device_work(trace_.events[i].kind)) add_work(i, busy_until[trace_.events[i].track], found);
    return found;
  }

  Found between_cpu_kernels() const {
    Found found;
    std::vector<int64_t> busy_until(trace_.tracks.size(), kNever);
    size_t step = 0;
    for (uint32_t i = 0; i < trace_.events.size(); ++i) {
      const Event& event = trace_.events[i];
      if (event.kind != EventKind::cpu_kernel) continue;
      const size_t before = step;
      while (step < steps_.size() && steps_[step].start_ns + steps_[step].wall_ns <= event.start_ns) ++step;
      if (step != before) std::fill(busy_until.begin(), busy_until.end(), kNever);
      if (step == steps_.size() || event.start_ns < steps_[step].start_ns) continue;
      add_work(i, busy_until[event.track], found);
    }
    return found;
  }

  // And the gap before it.
  void add_work(uint32_t i, int64_t& busy_until, Found& found) const {
    const Event& event = trace_.events[i];
    if (busy_until != kNever && event.start_ns > busy_until)
      found.gaps.push_back({.track = event.track,
                            .start_ns = busy_until,
                            .duration_ns = event.start_ns - busy_until,
                            .ended_by = i});
    add_saturated(found.worked_ns,
                  std::max<int64_t>(0, event.end_ns() - std::max(event.start_ns, busy_until)));
    busy_until = std::max(busy_until, event.end_ns());
  }

  void explain(Gap& gap) const {
    const Event& next = trace_.events[gap.ended_by];
    const uint32_t call = launches_[gap.ended_by];
    const auto op = op_by_id_.find(next.external_id);
    if (next.external_id != 0 && op != op_by_id_.end()) gap.launched_by = op->second;
    if (next.kind != EventKind::cpu_kernel && call == kNoEvent) return;
    const uint32_t thread = next.kind == EventKind::cpu_kernel ? next.track : trace_.events[call].track;
    if (gap.launched_by == kNoEvent)
      gap.launched_by = innermost_op(thread, call == kNoEvent ? next.start_ns : trace_.events[call].start_ns);
    find_host(gap, thread);
  }

  int64_t end_of(uint32_t thread, uint32_t at) const { return trace_.events[host_[thread][at]].end_ns(); }

  // `at` or the nearest slice around it that ends after the moment; kNoEvent: none.
  uint32_t open_at(uint32_t thread, uint32_t at, int64_t ns) const {
    while (at != kNoEvent && end_of(thread, at) <= ns) at = outlasting_[thread][at];
    return at;
  }

  void add_slice(uint32_t thread, uint32_t event) {
    auto& slices = host_[thread];
    const uint32_t last = slices.empty() ? kNoEvent : static_cast<uint32_t>(slices.size() - 1);
    const uint32_t around = open_at(thread, last, trace_.events[event].start_ns);
    slices.push_back(event);
    around_[thread].push_back(around);
    outlasting_[thread].push_back(open_at(thread, around, trace_.events[event].end_ns()));
  }

  // Slices of a thread that overlap [from, to), in order: those around the last that began before, and those
  // that began within.
  std::vector<uint32_t> slices_within(uint32_t thread, int64_t from, int64_t to) const {
    const auto& slices = host_[thread];
    const auto starts_before = [&](uint32_t i, int64_t t) { return trace_.events[i].start_ns < t; };
    const auto first = std::lower_bound(slices.begin(), slices.end(), from, starts_before);
    std::vector<uint32_t> found;
    const auto last = first == slices.begin() ? kNoEvent : static_cast<uint32_t>(first - slices.begin() - 1);
    for (uint32_t at = open_at(thread, last, from); at != kNoEvent;
         at = open_at(thread, around_[thread][at], from))
      found.push_back(slices[at]);
    std::reverse(found.begin(), found.end());
    for (auto at = first; at != slices.end() && trace_.events[*at].start_ns < to; ++at)
      if (trace_.events[*at].end_ns() > from) found.push_back(*at);
    return found;
  }

  uint32_t innermost_op(uint32_t thread, int64_t ns) const {
    uint32_t innermost = kNoEvent;
    for (const uint32_t i : slices_within(thread, ns, ns + 1))
      if (trace_.events[i].kind == EventKind::cpu_op) innermost = i;
    return innermost;
  }

  // The slice with the largest part of the gap that is not a child's; a step only of a gap that is mostly
  // unrecorded.
  void find_host(Gap& gap, uint32_t thread) const {
    const int64_t from = gap.start_ns, to = gap.start_ns + gap.duration_ns;
    std::vector<std::pair<uint32_t, int64_t>> own;  // slice, its own part of the gap
    std::vector<size_t> around;                     // into own
    Intervals recorded;
    for (const uint32_t i : slices_within(thread, from, to)) {
      const Event& event = trace_.events[i];
      if (!is_step(trace_, event)) recorded.add(event.start_ns, event.end_ns());
      while (!around.empty() && trace_.events[own[around.back()].first].end_ns() <= event.start_ns)
        around.pop_back();
      const int64_t part = std::min(event.end_ns(), to) - std::max(event.start_ns, from);
      if (!around.empty()) own[around.back()].second -= part;
      around.push_back(own.size());
      own.emplace_back(i, part);
    }
    gap.unrecorded_ns = gap.duration_ns - recorded.within(from, to);
    const bool recorded_mostly = 2 * gap.unrecorded_ns <= gap.duration_ns;  // then its step tells nothing
    for (const auto& [i, part] : own)
      if (part > gap.host_ns && !(recorded_mostly && is_step(trace_, trace_.events[i]))) {
        gap.host = i;
        gap.host_ns = part;
      }
  }

  const Trace& trace_;
  std::vector<uint32_t> launches_;
  std::vector<Step> steps_;
  mutable StepSearch search_{steps_};          // remembers where it looked last
  std::vector<std::vector<uint32_t>> host_;    // by track: the host's slices
  std::vector<std::vector<uint32_t>> around_;  // and the slice (into host_) that each began in
  // The nearest of those around it that ends later: where each slice overlaps the next, as asynchronous ones
  // do, all before it are around it, and a walk over them for every gap would be quadratic.
  std::vector<std::vector<uint32_t>> outlasting_;
  std::unordered_map<uint64_t, uint32_t> op_by_id_;
  bool has_device_ = false, has_cpu_kernels_ = false;
};

std::string name_of(const Trace& trace, uint32_t event) {
  return event == kNoEvent ? "" : std::string(trace.name(trace.events[event]));
}

double us(int64_t ns) { return static_cast<double>(ns) / 1e3; }

// All of them where `most` is negative.
std::span<const Gap> first_of(const std::vector<Gap>& gaps, int most) {
  return std::span(gaps).first(most < 0 ? gaps.size() : std::min(gaps.size(), static_cast<size_t>(most)));
}

std::string sum_text(const GapSum& sum, bool of_device, int rows) {
  const auto share = [](int64_t part, int64_t whole) {
    return fmt::format("{:.1f}%", whole > 0 ? 100 * us(part) / us(whole) : 0);
  };
  return fmt::format("\nTogether: {}, {} idle, {} of the time from a {}.\n", counted(sum.gaps, "gap"),
                     time_text(sum.idle_ns), share(sum.idle_ns, sum.window_ns),
                     of_device ? "stream's first work to its last"
                               : "step's first kernel to its last, of each thread by itself") +
         limited_table("Idle by what the host mostly did in a gap",
                       TextTable({{"Host meanwhile", false}, {"Gaps"}, {"Idle"}, {"Share"}}), sum.by_host,
                       rows, [&](const GapSum::Host& host) -> std::vector<std::string> {
                         return {host.name.empty() ? "nothing recorded" : host.name,
                                 std::to_string(host.gaps), time_text(host.idle_ns),
                                 share(host.idle_ns, sum.idle_ns)};
                       });
}

std::string host_text(const Trace& trace, const Gap& gap) {
  if (gap.host == kNoEvent) return "nothing recorded";
  const auto percent = [&](int64_t part) { return 100 * us(part) / us(gap.duration_ns); };
  const std::string host = fmt::format("{} ({:.0f}%)", name_of(trace, gap.host), percent(gap.host_ns));
  if (2 * gap.unrecorded_ns <= gap.duration_ns) return host;
  return fmt::format("{}, {:.0f}% unrecorded", host, percent(gap.unrecorded_ns));
}

// Two kernels that came one after the other look like a gap where the one between them is lost.
std::string damage_text(const Trace& trace) {
  return trace.damaged ? ": DAMAGED: a gap may hold kernels or copies that were lost" : "";
}

std::string first_wait_text(const FirstWait& wait) {
  if (wait.longest_ns < 0) return "";
  return fmt::format("Not among the gaps: {}{} from {}.\n", wait.of_device ? "" : "at most ",
                     time_text(wait.longest_ns),
                     wait.of_device ? "the first step's start to the device's first work"
                                    : "a step's start to its first kernel");
}

}  // namespace

double GapSum::idle_share() const { return window_ns > 0 ? us(idle_ns) / us(window_ns) : 0; }

GapSum sum_gaps(const Trace& trace) {
  const GapFinder finder(trace);
  return finder.sum(finder.explained());
}

std::vector<Gap> find_gaps(const Trace& trace, int most) {
  const std::vector<Gap> all = GapFinder(trace).explained().gaps;
  const std::span<const Gap> first = first_of(all, most);
  return {first.begin(), first.end()};
}

FirstWait find_first_wait(const Trace& trace) { return GapFinder(trace).first_wait(); }

std::vector<Gap> find_unexplained_gaps(const Trace& trace) { return GapFinder(trace).find().gaps; }

std::string gaps_text(const Trace& trace, int rows) {
  const GapFinder finder(trace);
  const GapFinder::Found found = finder.explained();
  const std::vector<Gap>& all = found.gaps;
  const FirstWait wait = finder.first_wait();
  const std::string first_wait = first_wait_text(wait);
  if (all.empty())
    return fmt::format("{}: {}{}\n{}", trace.source,
                       finder.has_kernels() ? "no gaps" : "no kernels, so no gaps",
                       trace.damaged ? ", in what is left of a DAMAGED trace" : "", first_wait);
  const Origin origin = origin_of(trace);
  TextTable table({{"Idle"},
                   {origin.is_step ? "After the first step's start" : "After the first event"},
                   {"Step", false},
                   {"Where", false},
                   {"Ended by", false},
                   {"Launched by", false},
                   {"Host meanwhile", false}});
  for (const Gap& gap : first_of(all, rows)) {
    const Step* step = finder.step_of(gap);
    table.add_row({format_us(us(gap.duration_ns)), format_us(us(gap.start_ns - origin.ns)),
                   step ? step->name : "-", full_track_name(trace.tracks[gap.track]),
                   short_name(name_of(trace, gap.ended_by)), name_of(trace, gap.launched_by),
                   host_text(trace, gap)});
  }
  return fmt::format("{}{}\n{}{}{}{}{}", trace.source, damage_text(trace), table.to_string(),
                     rows_left_out(all.size(), rows), sum_text(finder.sum(found), wait.of_device, rows),
                     first_wait.empty() ? "" : "\n", first_wait);
}

std::string gaps_json(const Trace& trace, int rows) {
  const GapFinder finder(trace);
  const int64_t origin_ns = origin_of(trace).ns;
  const auto gap_json = [&](const Gap& gap) {
    const Step* step = finder.step_of(gap);
    return fmt::format(
        R"({{"idle_us":{:.3f},"at_us":{:.3f},"step":{},"where":{},"ended_by":{},"launched_by":{},"host":{},)"
        R"("host_us":{:.3f},"unrecorded_us":{:.3f}}})",
        us(gap.duration_ns), us(gap.start_ns - origin_ns), step ? json_quote(step->name) : "null",
        json_quote(full_track_name(trace.tracks[gap.track])), json_quote(name_of(trace, gap.ended_by)),
        json_quote(name_of(trace, gap.launched_by)), json_quote(name_of(trace, gap.host)), us(gap.host_ns),
        us(gap.unrecorded_ns));
  };
  const GapFinder::Found found = finder.explained();
  const GapSum sum = finder.sum(found);
  const auto host_json = [](const GapSum::Host& host) {
    return fmt::format(R"({{"host":{},"gaps":{},"idle_us":{}}})", json_quote(host.name), host.gaps,
                       us_json(host.idle_ns));
  };
  const int64_t wait = finder.first_wait().longest_ns;
  return fmt::format(
      "{{\"file\":{},\n\"damaged\":{},\n\"gaps\":{},\n\"gap_count\":{},\n\"idle_us\":{},\n\"window_us\":{},\n"
      "\"idle_share\":{:.4f},\n\"idle_by_host\":{},\n\"first_wait_us\":{},\n\"problems\":{}}}",
      json_quote(trace.source), trace.damaged, json_array(first_of(found.gaps, rows), gap_json), sum.gaps,
      us_json(sum.idle_ns), us_json(sum.window_ns), sum.idle_share(), json_array(sum.by_host, host_json),
      wait < 0 ? "null" : us_json(wait), problems_json(trace.problems));
}

}  // namespace epilogue::trace
