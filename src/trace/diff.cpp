#include "trace/diff.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <unordered_map>

#include <fmt/format.h>

#include "trace/fusions.h"
#include "trace/links.h"
#include "trace/placement.h"
#include "trace/summary.h"

namespace epilogue::trace {
namespace {

using Key = std::tuple<DiffKind, std::string, LaunchTuple>;

struct Collected {
  DiffTotals totals;
  std::map<Key, DiffSide> sides;
};

std::optional<DiffKind> kind_of(EventKind kind) {
  switch (kind) {
    case EventKind::cpu_op:
      return DiffKind::op;
    case EventKind::kernel:
      return DiffKind::kernel;
    case EventKind::cpu_kernel:
      return DiffKind::cpu_kernel;
    case EventKind::gpu_memcpy:
    case EventKind::gpu_memset:
      return DiffKind::copy;
    default:
      return std::nullopt;
  }
}

DiffTotals totals_of(const Summary& summary) {
  DiffTotals totals{.file = summary.file,
                    .steps = summary.steps.size(),
                    .has_device = summary.ops.has_device,
                    .problems = summary.problems,
                    .damaged = summary.damaged};
  const auto spread = [&](int64_t Step::*member) {
    std::vector<int64_t> values;
    for (const Step& step : summary.steps) values.push_back(step.*member);
    return Spread(std::move(values));
  };
  totals.wall_ns = spread(&Step::wall_ns);
  totals.device_ns = spread(&Step::device_busy_ns);
  totals.kernels = spread(&Step::kernels);
  for (const Step& step : summary.steps) totals.all_kernels += step.kernels;
  totals.memory_peaks = memory_peaks(summary);
  return totals;
}

class Collector {
 public:
  explicit Collector(const Trace& trace)
      : trace_(trace),
        summary_(summarise(trace)),
        steps_(summary_.steps),
        launches_(launching_calls(trace)),
        places_(place_events(trace, launches_, steps_)) {}

  Collected collect() {
    for (uint32_t i = 0; i < trace_.events.size(); ++i)
      if (is_kernel(trace_.events[i].kind) && places_[i].op != kNoEvent) ++kernels_of_[places_[i].op];
    for (uint32_t i = 0; i < trace_.events.size(); ++i) add(i);
    Collected collected{.totals = totals_of(summary_)};
    collected.totals.untied = count_untied(trace_, launches_, steps_);
    for (auto& [key, found] : found_) {
      found.side.calls_per_step =
          static_cast<double>(found.side.calls) / static_cast<double>(std::max<size_t>(1, steps_.size()));
      if (const DiffKind kind = std::get<DiffKind>(key);
          kind == DiffKind::kernel || kind == DiffKind::cpu_kernel)
        collected.totals.kernel_names.insert(found.side.name);
      found.side.step_ns = Spread(std::move(found.step_ns));
      collected.sides.emplace(key, std::move(found.side));
    }
    return collected;
  }

 private:
  struct Found {
    DiffSide side;
    std::vector<int64_t> step_ns;
  };

  void add(uint32_t i) {
    const Event& event = trace_.events[i];
    const std::optional<DiffKind> kind = kind_of(event.kind);
    if (!kind || (!steps_.empty() && places_[i].step == kNoEvent)) return;
    Found& found = entry(event, *kind);
    ++found.side.calls;
    const uint32_t op = places_[i].op;
    if (op != kNoEvent && *kind != DiffKind::op) {
      found.side.ops.emplace(bare_op_name(trace_.name(trace_.events[op])));
      found.side.alone &= kernels_of_[op] == 1;
    }
    // An op inside one of its own name is part of that one's time.
    if (*kind == DiffKind::op && op != kNoEvent && trace_.events[op].name == event.name) return;
    found.side.total_ns += event.duration_ns;
    found.step_ns[steps_.empty() ? 0 : places_[i].step] += event.duration_ns;
  }

  Found& entry(const Event& event, DiffKind kind) {
    const uint32_t detail = kind == DiffKind::kernel ? event.detail : kNoDetail;
    Found*& known = by_id_[static_cast<size_t>(kind)][uint64_t{event.name} << 32 | detail];
    if (known) return *known;
    LaunchTuple launch;
    if (detail != kNoDetail) launch = {trace_.launches[detail].grid, trace_.launches[detail].block};
    const std::string name(trace_.name(event));
    Found& found = found_[{kind, kind == DiffKind::op ? std::string(bare_op_name(name)) : name, launch}];
    found.side.name = name;
    found.side.launch = launch;
    found.step_ns.resize(std::max<size_t>(1, steps_.size()));
    return *(known = &found);
  }

  const Trace& trace_;
  const Summary summary_;
  const std::vector<Step>& steps_;
  const std::vector<uint32_t> launches_;
  std::vector<Placement> places_;
  std::unordered_map<uint32_t, int64_t> kernels_of_;  // by op's event: those that it launched itself
  std::map<Key, Found> found_;
  std::array<std::unordered_map<uint64_t, Found*>, 4> by_id_;  // by kind; by name and launch
};

// Kernels of one name that were launched differently, in the order of their launch tuples.
void match_by_name(Diff& diff) {
  for (DiffRow& gone : diff.only_a) {
    const auto same = std::find_if(diff.only_b.begin(), diff.only_b.end(), [&](const DiffRow& row) {
      return row.b && row.kind == gone.kind && row.b->name == gone.a->name;
    });
    if (same == diff.only_b.end()) continue;
    diff.changed.push_back({gone.kind, std::move(gone.a), std::move(same->b)});
    gone.a.reset();
    same->b.reset();
  }
  std::erase_if(diff.only_a, [](const DiffRow& row) { return !row.a; });
  std::erase_if(diff.only_b, [](const DiffRow& row) { return !row.b; });
}

int importance(const DiffRow& row) {
  if (row.calls_changed() || row.launch_changed()) return 0;
  return row.time_within_noise() ? 2 : 1;
}

void order_rows(Diff& diff) {
  const auto by_time = [](const DiffRow& x, const DiffRow& y) {
    const auto ns = [](const DiffRow& row) { return (row.a ? row.a : row.b)->step_ns.median; };
    return std::pair(x.kind == DiffKind::op, -ns(x)) < std::pair(y.kind == DiffKind::op, -ns(y));
  };
  std::stable_sort(diff.only_a.begin(), diff.only_a.end(), by_time);
  std::stable_sort(diff.only_b.begin(), diff.only_b.end(), by_time);
  std::stable_sort(diff.changed.begin(), diff.changed.end(), [&](const DiffRow& x, const DiffRow& y) {
    const int first = importance(x), second = importance(y);
    return first != second ? first < second : by_time(x, y);
  });
}

}  // namespace

std::string DiffTotals::lacking_launches() const {
  return fmt::format("lacks the calls that launched {} of its kernels or copies", untied);
}

const char* diff_kind_name(DiffKind kind) {
  constexpr const char* kNames[] = {"op", "kernel", "cpu kernel", "copy"};
  return kNames[static_cast<size_t>(kind)];
}

Diff diff_traces(const Trace& a, const Trace& b) {
  Collected in_a = Collector(a).collect(), in_b = Collector(b).collect();
  Diff diff{.a = std::move(in_a.totals), .b = std::move(in_b.totals)};
  for (auto& [key, side] : in_a.sides) {
    const auto other = in_b.sides.find(key);
    if (other == in_b.sides.end()) {
      diff.only_a.push_back({std::get<DiffKind>(key), std::move(side), std::nullopt});
      continue;
    }
    DiffRow row{std::get<DiffKind>(key), std::move(side), std::move(other->second)};
    in_b.sides.erase(other);
    if (row.calls_changed() || row.a->step_ns.median != row.b->step_ns.median)
      diff.changed.push_back(std::move(row));
  }
  for (auto& [key, side] : in_b.sides)
    diff.only_b.push_back({std::get<DiffKind>(key), std::nullopt, std::move(side)});
  match_by_name(diff);
  order_rows(diff);
  find_fusions(diff);
  return diff;
}

}  // namespace epilogue::trace
