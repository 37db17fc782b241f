#include <cmath>

#include <fmt/format.h>

#include "trace/diff.h"
#include "trace/kernel_name.h"
#include "trace/print.h"

namespace epilogue::trace {
namespace {

// "a", "a and b", "a, b and c"; of more than four the first three and how many others.
std::string listed(std::vector<std::string> names) {
  if (names.empty()) return {};
  if (names.size() > 4) {
    const size_t others = names.size() - 3;
    names.resize(3);
    names.push_back(fmt::format("{} others", others));
  }
  const std::string last = std::move(names.back());
  names.pop_back();
  return names.empty() ? last : fmt::format("{} and {}", fmt::join(names, ", "), last);
}

std::string brief(DiffKind kind, const std::string& name) {
  const bool kernel = kind == DiffKind::kernel || kind == DiffKind::cpu_kernel;
  return kernel && name.size() > 60 ? short_name(name) : name;
}

// One trace's kernels ran on a device, the other's on the CPU: their times say little about each other.
bool on_different_machines(const Diff& diff) {
  return diff.a.has_device != diff.b.has_device && diff.a.kernels.high > 0 && diff.b.kernels.high > 0;
}

std::string kernel_counts(const Diff& diff) {
  const int64_t a = diff.a.kernels.median, b = diff.b.kernels.median;
  if (on_different_machines(diff)) {
    const auto kind = [](const DiffTotals& totals) {
      return totals.has_device ? "device kernel" : "CPU kernel";
    };
    return fmt::format("B runs {} per step where A runs {}", counted(b, kind(diff.b)),
                       counted(a, kind(diff.a)));
  }
  if (a == b) return fmt::format("B runs {} per step, as A does", counted(b, "kernel"));
  return fmt::format("B runs {} per step instead of {}", counted(b, "kernel"), a);
}

// Without a wait at its end a step is over for the host before the device has run it: what the host took
// must not be read as the device's.
const char* wall_time(const Diff& diff) {
  return diff.a.has_device || diff.b.has_device ? "the host's time per step" : "the step's wall time";
}

std::string kernel_changes(const Diff& diff) {
  std::vector<std::string> parts;
  for (const Fusion& fusion : diff.fusions)
    parts.push_back(fusion.from.size() > 1 ? fmt::format("{} became one ({})", listed(fusion.from),
                                                         brief(DiffKind::kernel, fusion.into))
                                           : fmt::format("{} runs another kernel ({})", fusion.from.front(),
                                                         brief(DiffKind::kernel, fusion.into)));
  const auto add = [&](const std::vector<std::string>& kernels, const DiffTotals& other,
                       const char* if_not_there, const char* if_there) {
    std::vector<std::string> here_alone, there_too;
    for (const std::string& name : kernels)
      (other.kernel_names.contains(name) ? there_too : here_alone).push_back(brief(DiffKind::kernel, name));
    if (!here_alone.empty()) parts.push_back(fmt::format("{} {}", listed(here_alone), if_not_there));
    if (!there_too.empty()) parts.push_back(fmt::format("{} {}", listed(there_too), if_there));
  };
  add(diff.gone, diff.b, "gone", "less often");
  add(diff.added, diff.a, "new", "more often");
  return parts.empty() ? "" : fmt::format(": {}", fmt::join(parts, "; "));
}

std::string time_change(const Spread& a, const Spread& b) {
  const double percent = 100 * relative_change(a, b);
  if (a.median == 0 && b.median > 0) return fmt::format("{} instead of none", time_text(b.median));
  if (a.median == b.median || std::abs(percent) <= 0.5) return "the same";
  std::string change;
  if (percent >= 100)
    change = fmt::format("{:.1f} times as long", 1 + percent / 100);
  else if (percent < -99 && b.median > 0)  // a share would round to all of it
    change =
        fmt::format("{:.0f} times shorter", static_cast<double>(a.median) / static_cast<double>(b.median));
  else
    change = fmt::format("{:.0f}% {}", std::abs(percent), percent < 0 ? "shorter" : "longer");
  return change + (within_noise(a, b) ? " (within noise)" : "");
}

std::string table_change(const Spread& a, const Spread& b) {
  if (a.median == b.median || a.median == 0) return "";
  return fmt::format("{:+.1f}%{}", 100 * relative_change(a, b), within_noise(a, b) ? ", within noise" : "");
}

// Whose time a row's is. An op's on the host says nothing of how long its kernels ran.
const char* clock_name(DiffKind kind) {
  return kind == DiffKind::kernel || kind == DiffKind::copy ? "device" : "host";
}

std::string launch(const DiffRow& row, const DiffSide& side) {
  if (row.kind != DiffKind::kernel) return "";
  return fmt::format("{} / {}", fmt::join(side.launch.grid, "x"), fmt::join(side.launch.block, "x"));
}

std::string totals_text(const Diff& diff) {
  TextTable table({{"Per step (median)", false}, {"A"}, {"B"}, {"Change", false}});
  const DiffTotals &a = diff.a, &b = diff.b;
  const auto change = [&](const Spread& in_a, const Spread& in_b) {
    return diff.damaged() ? "" : table_change(in_a, in_b);
  };
  const bool comparable = !diff.untied() && !diff.side_without_kernels();
  if (a.steps && b.steps) {
    table.add_row({"kernels", std::to_string(a.kernels.median), std::to_string(b.kernels.median)});
    table.add_row({a.has_device && b.has_device ? "device time" : "in kernels", time_text(a.device_ns.median),
                   time_text(b.device_ns.median), comparable ? change(a.device_ns, b.device_ns) : ""});
    table.add_row({diff.a.has_device || diff.b.has_device ? "wall (the host's)" : "wall",
                   time_text(a.wall_ns.median), time_text(b.wall_ns.median), change(a.wall_ns, b.wall_ns)});
  }
  for (const auto& [device, peak] : a.memory_peaks)
    if (const auto other = b.memory_peaks.find(device); other != b.memory_peaks.end())
      table.add_row(
          {fmt::format("memory peak, {}", device), format_bytes(peak), format_bytes(other->second)});
  return table.to_string();
}

// "Only in A"; "In A, not in what is left of B" where B is not whole.
std::string only_title(char here, char there, const DiffTotals& other) {
  return !other.whole() ? fmt::format("In {}, not in what is left of {}", here, there)
                        : fmt::format("Only in {}", here);
}

std::string only_text(const std::string& title, const std::vector<DiffRow>& rows, int limit) {
  return limited_table(title,
                       TextTable({{"Kind", false},
                                  {"Name", false},
                                  {"Calls/step"},
                                  {"Time/step"},
                                  {"On", false},
                                  {"Grid / block", false},
                                  {"Launched by", false}}),
                       rows, limit, [](const DiffRow& row) -> std::vector<std::string> {
                         const DiffSide& side = row.a ? *row.a : *row.b;
                         return {diff_kind_name(row.kind),
                                 brief(row.kind, side.name),
                                 fmt::format("{:.4g}", side.calls_per_step),
                                 time_text(side.step_ns.median),
                                 clock_name(row.kind),
                                 launch(row, side),
                                 fmt::format("{}", fmt::join(side.ops, ", "))};
                       });
}

std::string changed_text(const Diff& diff, int limit) {
  return limited_table(!diff.a.whole() || !diff.b.whole() ? "Changed, as far as is left" : "Changed",
                       TextTable({{"Kind", false},
                                  {"Name", false},
                                  {"Calls/step A"},
                                  {"B"},
                                  {"Time/step A"},
                                  {"B"},
                                  {"On", false},
                                  {"Change", false}}),
                       diff.changed, limit, [](const DiffRow& row) -> std::vector<std::string> {
                         std::string change = table_change(row.a->step_ns, row.b->step_ns);
                         if (row.launch_changed())
                           change += fmt::format("; {} became {}", launch(row, *row.a), launch(row, *row.b));
                         return {diff_kind_name(row.kind),
                                 row.a->name == row.b->name ? brief(row.kind, row.a->name)
                                                            : fmt::format("{}, {}", row.a->name, row.b->name),
                                 fmt::format("{:.4g}", row.a->calls_per_step),
                                 fmt::format("{:.4g}", row.b->calls_per_step),
                                 time_text(row.a->step_ns.median),
                                 time_text(row.b->step_ns.median),
                                 clock_name(row.kind),
                                 change};
                       });
}

std::string damage_sentence(const Diff& diff) {
  const bool both = diff.a.damaged && diff.b.damaged;
  const DiffTotals& one = diff.a.damaged ? diff.a : diff.b;
  const std::string what =
      both || one.problems.empty() ? "" : fmt::format(" ({})", one.problems.front().what);
  return fmt::format(
      "{}{}: what is missing may be lost and not gone, so nothing is said to have changed; below is what is "
      "left.",
      both             ? "Both traces are damaged"
      : diff.a.damaged ? "A is damaged"
                       : "B is damaged",
      what);
}

// Their kernels and copies are in no step, so that the tables and the figures per step lack them.
std::string untied_sentence(const Diff& diff) {
  const auto lacks = [](char which, const DiffTotals& totals) {
    return totals.untied == 0 ? "" : fmt::format("{} {}", which, totals.lacking_launches());
  };
  const std::string a = lacks('A', diff.a), b = lacks('B', diff.b);
  return fmt::format("{}{}{}: nothing is said of kernels and device time, below is what is left; {} is {}.",
                     a, a.empty() || b.empty() ? "" : ", ", b, wall_time(diff),
                     time_change(diff.a.wall_ns, diff.b.wall_ns));
}

std::string no_steps_sentence(const Diff& diff, const std::string& changes) {
  const char* which = diff.a.steps   ? "B marks no steps"
                      : diff.b.steps ? "A marks no steps"
                                     : "Neither trace marks steps";
  return fmt::format("{} (ProfilerStep#N), so the whole trace counts as one{}.", which, changes);
}

std::string lacking_kernels_sentence(const Diff& diff) {
  const bool in_b = diff.side_without_kernels() == &diff.b;
  const bool device = (in_b ? diff.a : diff.b).has_device;
  const std::string lacks =
      fmt::format("{} holds no {}", in_b ? 'B' : 'A',
                  device ? "GPU kernels: was CUDA activity recorded?" : "kernels: were they recorded?");
  if (diff.a.steps == 0 || diff.b.steps == 0) return fmt::format("{} {}", lacks, no_steps_sentence(diff, ""));
  return fmt::format("{} Nothing is said of kernels and device time; {} is {}.", lacks, wall_time(diff),
                     time_change(diff.a.wall_ns, diff.b.wall_ns));
}

std::string file_text(char which, const DiffTotals& totals) {
  std::string text =
      fmt::format("{}: {}, {}\n", which, totals.file, counted(static_cast<int64_t>(totals.steps), "step"));
  for (const Problem& problem : totals.problems)
    text += fmt::format("   problem: {}: {}\n", problem.what, problem.count);
  return text;
}

}  // namespace

std::string diff_sentence(const Diff& diff) {
  if (diff.damaged()) return damage_sentence(diff);
  if (diff.untied()) return untied_sentence(diff);
  if (diff.side_without_kernels()) return lacking_kernels_sentence(diff);
  if (diff.a.steps == 0 || diff.b.steps == 0)
    return no_steps_sentence(diff, diff.empty() ? "; nothing changed" : kernel_changes(diff));
  if (diff.empty() && diff.a.wall_ns.median == diff.b.wall_ns.median)
    return fmt::format("Nothing changed: {} per step, the same ops and times.",
                       counted(diff.a.kernels.median, "kernel"));
  if (on_different_machines(diff))
    return kernel_counts(diff) +
           fmt::format("; {} is {}.", wall_time(diff), time_change(diff.a.wall_ns, diff.b.wall_ns));
  return kernel_counts(diff) + kernel_changes(diff) +
         fmt::format("; the step's {} time is {}, {} {}.",
                     diff.a.has_device || diff.b.has_device ? "device" : "CPU kernel",
                     time_change(diff.a.device_ns, diff.b.device_ns), wall_time(diff),
                     time_change(diff.a.wall_ns, diff.b.wall_ns));
}

std::string diff_text(const Diff& diff, const DiffText& options) {
  std::string text = diff_sentence(diff) + "\n\n" + file_text('A', diff.a) + file_text('B', diff.b);
  text += '\n';
  text += totals_text(diff);
  text += only_text(only_title('A', 'B', diff.b), diff.only_a, options.rows) +
          only_text(only_title('B', 'A', diff.a), diff.only_b, options.rows) +
          changed_text(diff, options.rows);
  if (diff.a.steps == 1 || diff.b.steps == 1)
    text += "\nA trace of one step has no spread: its noise is not known.\n";
  return text;
}

}  // namespace epilogue::trace
