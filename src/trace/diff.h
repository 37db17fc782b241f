// What changed between two traces: `epilogue trace diff A B`.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "epilogue/trace.h"
#include "trace/spread.h"

namespace epilogue::trace {

enum class DiffKind : uint8_t { op, kernel, cpu_kernel, copy };
const char* diff_kind_name(DiffKind kind);  // "op", "kernel", "cpu kernel", "copy"

struct LaunchTuple {
  std::array<int32_t, 3> grid{}, block{};
  auto operator<=>(const LaunchTuple&) const = default;
};

// An op, kernel or copy in one of the traces, counted inside the steps; in the whole trace if it marks none.
struct DiffSide {
  std::string name;
  int64_t calls = 0, total_ns = 0;
  double calls_per_step = 0;
  Spread step_ns;
  LaunchTuple launch;         // of a device's kernel
  std::set<std::string> ops;  // that launched it, without their namespace
  bool alone = true;          // no call of these launched another kernel
};

struct DiffRow {
  DiffKind kind = DiffKind::op;
  std::optional<DiffSide> a, b;
  bool calls_changed() const { return a->calls_per_step != b->calls_per_step; }
  bool launch_changed() const { return a->launch != b->launch; }
  bool time_within_noise() const { return within_noise(a->step_ns, b->step_ns); }
};

// Kernels of A whose work a kernel of B does: told by the ops that launched them and those that the new
// kernel's name or op says it computes. One for one: the same op runs another kernel.
struct Fusion {
  std::vector<std::string> from;  // ops
  std::string into;               // the kernel's name
};

struct DiffTotals {
  std::string file;
  size_t steps = 0;
  bool has_device = false;
  Spread wall_ns, device_ns, kernels;           // per step; device: Step::device_busy_ns
  std::map<std::string, int64_t> memory_peaks;  // of trace/summary.h
  std::vector<Problem> problems;
  bool damaged = false;
  int64_t all_kernels = 0;             // of the steps together
  int64_t untied = 0;                  // count_untied: what the rows and the figures per step leave out
  std::set<std::string> kernel_names;  // also of CPU kernels
  bool whole() const { return !damaged && untied == 0; }  // else what is missing may be lost and not gone
  std::string lacking_launches() const;  // "lacks the calls that launched 3 of its kernels or copies"
  bool ran_nothing() const { return kernel_names.empty() && !has_device; }
};

struct Diff {
  DiffTotals a, b;
  std::vector<DiffRow> only_a, only_b;  // most time first
  std::vector<DiffRow> changed;  // in calls or launch first, then in time beyond noise, then within noise
  std::vector<Fusion> fusions;
  std::vector<std::string> gone, added;                    // kernels that no fusion explains
  bool damaged() const { return a.damaged || b.damaged; }  // what is missing may have been lost
  bool untied() const { return a.untied > 0 || b.untied > 0; }
  // The one without device work, where the other has kernels: those are hardly gone, they were not recorded.
  const DiffTotals* side_without_kernels() const {
    if (a.ran_nothing() && !b.kernel_names.empty()) return &a;
    return b.ran_nothing() && !a.kernel_names.empty() ? &b : nullptr;
  }
  bool empty() const { return only_a.empty() && only_b.empty() && changed.empty(); }
};

// Ops are matched by the part after the colons, so that ep::linear and aten::linear compare; kernels by name
// and launch tuple, and what is left by name.
Diff diff_traces(const Trace& a, const Trace& b);

// What --fail-on takes, one per line with its meaning.
const char* fail_on_help();
// Those of the conditions that hold, each with its numbers. One that the traces cannot decide holds and says
// so. Throws Error for a condition that does not exist.
std::vector<std::string> failed_conditions(const Diff& diff, const std::vector<std::string>& conditions);

std::string diff_sentence(const Diff& diff);
struct DiffText {
  int rows = 20;  // per table; negative: all
};
std::string diff_text(const Diff& diff, const DiffText& options = {});
std::string diff_json(const Diff& diff, const std::vector<std::string>& failed = {});

}  // namespace epilogue::trace
