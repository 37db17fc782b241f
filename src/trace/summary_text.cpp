#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_map>

#include <fmt/format.h>

#include "trace/names.h"
#include "trace/print.h"
#include "trace/summary.h"

namespace epilogue::trace {
namespace {

std::string number(int64_t n) { return fmt::format("{}", n); }

bool runs_on_cpu(const Summary& summary) {
  return !summary.kernels.empty() && summary.copies.empty() &&
         std::ranges::all_of(summary.kernels, &KernelStats::cpu);
}

// Of a trace that holds ops alone, as PyTorch's of a CPU: nothing can be said of a device or of kernels.
std::string steps_of_ops_text(const Summary& summary, int rows) {
  return limited_table("Steps", TextTable({{"Step", false}, {"Wall"}}), summary.steps, rows,
                       [](const Step& step) -> std::vector<std::string> {
                         return {step.name, time_text(step.wall_ns)};
                       }) +
         fmt::format("Median of {}: wall {}. {} holds no kernels.\n",
                     counted(static_cast<int64_t>(summary.steps.size()), "step"),
                     time_text(median_of(summary.steps, &Step::wall_ns)),
                     summary.damaged ? "What is left of the trace" : "The trace");
}

std::string steps_text(const Summary& summary, int rows) {
  if (summary.steps.empty()) return "\nThe trace marks no steps (ProfilerStep#N).\n";
  if (summary.kernels.empty() && summary.copies.empty()) return steps_of_ops_text(summary, rows);
  const bool on_cpu = runs_on_cpu(summary);
  std::string text = limited_table("Steps",
                                   TextTable({{"Step", false},
                                              {"Wall"},
                                              {on_cpu ? "In kernels" : "Device time"},
                                              {on_cpu ? "Outside" : "Device idle"},
                                              {"Kernels"},
                                              {"Regime", false},
                                              {"Because", false}}),
                                   summary.steps, rows, [](const Step& step) -> std::vector<std::string> {
                                     return {step.name,
                                             time_text(step.wall_ns),
                                             time_text(step.device_busy_ns),
                                             time_text(step.device_idle_ns),
                                             number(step.kernels),
                                             regime_name(step.regime),
                                             step.reason()};
                                   });
  text += fmt::format(
      "Median of {}: wall {}, {} {}, {}\n", counted(static_cast<int64_t>(summary.steps.size()), "step"),
      time_text(median_of(summary.steps, &Step::wall_ns)), on_cpu ? "in kernels" : "device time",
      time_text(median_of(summary.steps, &Step::device_busy_ns)),
      counted(median_of(summary.steps, &Step::kernels), "kernel"));
  if (on_cpu) return text;
  text +=
      "Device time: how long the device ran what the step launched, also after the step's end. Device idle: "
      "how long of the step it ran nothing.\n";
  if (summary.steps.front().devices > 1)
    text += fmt::format("Of {} the one that worked longest for the step.\n",
                        counted(summary.steps.front().devices, "device"));
  return text;
}

// "-" for what the trace does not tell.
template <class Number>
std::string told(Number value, const char* format = "{}") {
  return value > 0 ? fmt::format(fmt::runtime(format), value) : "-";
}

// The columns that both kinds of kernels have, and those of their own.
TextTable kernel_table(std::initializer_list<const char*> own) {
  std::vector<TextTable::Column> columns{{"Kernel", false}, {"Calls"}, {"Total"},
                                         {"Average"},       {"Min"},   {"Max"}};
  for (const char* title : own) columns.push_back({title});
  return TextTable(std::move(columns));
}

std::vector<std::string> kernel_cells(const KernelStats& kernel, std::initializer_list<std::string> own) {
  std::vector<std::string> cells{
      kernel.brief,
      number(kernel.calls),
      time_text(kernel.total_ns),
      format_us(static_cast<double>(kernel.total_ns) / 1e3 / static_cast<double>(kernel.calls)),
      time_text(kernel.min_ns),
      time_text(kernel.max_ns)};
  cells.insert(cells.end(), own);
  return cells;
}

std::vector<std::string> device_kernel_cells(const KernelStats& kernel) {
  const Launch& launch = kernel.launch;
  if (launch.grid[0] == 0) return kernel_cells(kernel, {"-", "-", "-", "-"});
  return kernel_cells(kernel, {fmt::format("{}", fmt::join(launch.grid, "x")),
                               fmt::format("{}", fmt::join(launch.block, "x")),
                               told(launch.registers_per_thread), format_bytes(launch.shared_bytes)});
}

std::vector<std::string> cpu_kernel_cells(const KernelStats& kernel) {
  const Work& work = kernel.work;
  const auto flops = static_cast<double>(work.flops);
  return kernel_cells(
      kernel,
      {told(work.threads), told(flops / 1e9, "{:.4g}"), work.bytes > 0 ? format_bytes(work.bytes) : "-",
       kernel.total_ns > 0 ? told(flops / static_cast<double>(kernel.total_ns), "{:.1f}") : "-"});
}

std::string kernels_text(const Summary& summary, int rows) {
  std::vector<KernelStats> on_device, on_cpu;
  for (const KernelStats& kernel : summary.kernels) (kernel.cpu ? on_cpu : on_device).push_back(kernel);
  return limited_table("Kernels", kernel_table({"Grid", "Block", "Registers", "Shared"}), on_device, rows,
                       device_kernel_cells) +
         limited_table(on_device.empty() ? "Kernels" : "Kernels on the CPU",
                       kernel_table({"Threads", "GFLOP", "Bytes", "GFLOP/s"}), on_cpu, rows,
                       cpu_kernel_cells);
}

std::string copies_text(const Summary& summary, int rows) {
  return limited_table("Copies", TextTable({{"Copy", false}, {"Calls"}, {"Total"}, {"Bytes"}, {"GB/s"}}),
                       summary.copies, rows, [](const CopyStats& copy) -> std::vector<std::string> {
                         const double rate = copy.total_ns > 0 ? static_cast<double>(copy.bytes) /
                                                                     static_cast<double>(copy.total_ns)
                                                               : 0;
                         return {copy.name, number(copy.calls), time_text(copy.total_ns),
                                 format_bytes(copy.bytes), fmt::format("{:.3f}", rate)};
                       });
}

std::string memory_text(const Summary& summary) {
  return limited_table("Memory",
                       TextTable({{"Device", false},
                                  {"Allocations"},
                                  {"Frees"},
                                  {"Peak allocated"},
                                  {"Peak reserved"},
                                  {"Unused reserve"}}),
                       summary.memory, -1, [](const DeviceMemory& memory) -> std::vector<std::string> {
                         return {memory_device_name(memory.device_type, memory.device_index),
                                 number(memory.allocations),
                                 number(memory.frees),
                                 format_bytes(memory.peak_allocated),
                                 format_bytes(memory.peak_reserved),
                                 fmt::format("{:.1f}%", 100 * memory.unused_reserve())};
                       });
}

std::string problems_text(const Summary& summary) {
  std::string text;
  for (const Problem& problem : summary.problems)
    text += fmt::format("{}  {}: {}\n", text.empty() ? "\nProblems\n" : "", problem.what, problem.count);
  return text;
}

std::string one_text(const Summary& summary, const SummaryText& options) {
  if (summary.events == 0 && summary.problems.empty())
    return fmt::format("{}: the trace holds no events.\n", summary.file);
  std::string text = fmt::format("{}: {}, {}", summary.file, counted(summary.events, "event"),
                                 counted(static_cast<int64_t>(summary.steps.size()), "step"));
  if (!summary.devices.empty()) text += fmt::format(", {}", devices_text(summary.devices));
  if (summary.damaged) text += ", DAMAGED: what follows is of what is left, see Problems";
  text += fmt::format("\n{}", steps_text(summary, options.rows));
  const std::string by_time = summary.ops.has_device ? "device_time_total" : "self_cpu_time_total";
  if (!summary.ops.rows.empty())
    text += "\nOps\n" +
            summary.ops.table(
                {.sort_by = options.sort_by.empty() ? by_time : options.sort_by, .rows = options.rows}) +
            rows_left_out(summary.ops.rows.size(), options.rows);
  text += kernels_text(summary, options.rows) + copies_text(summary, options.rows) + memory_text(summary);
  if (const LaunchStats& launch = summary.launch; launch.launches > 0)
    text += fmt::format(
        "\nLaunches: {}; from call to kernel median {}, longest {}; launched before and still waiting then: "
        "{:.1f} in the mean, at most {}\n",
        launch.launches, time_text(launch.median_latency_ns), time_text(launch.max_latency_ns),
        launch.mean_queue, launch.max_queue);
  return text + problems_text(summary);
}

std::vector<TextTable::Column> file_columns(const char* first, const std::vector<Summary>& summaries) {
  std::vector<TextTable::Column> columns{{first, false}};
  for (const Summary& summary : summaries)
    columns.push_back({summary.file.substr(summary.file.rfind('/') + 1)});
  return columns;
}

std::string totals_side_by_side(const std::vector<Summary>& summaries) {
  TextTable table(file_columns("Per step (median)", summaries));
  const auto add = [&](const char* what, const auto& cell) {
    std::vector<std::string> cells{what};
    for (const Summary& summary : summaries) cells.push_back(cell(summary));
    table.add_row(std::move(cells));
  };
  add("wall", [](const Summary& s) { return time_text(median_of(s.steps, &Step::wall_ns)); });
  const bool on_cpu = std::ranges::all_of(summaries, runs_on_cpu);
  add(on_cpu ? "in kernels" : "device time",
      [](const Summary& s) { return time_text(median_of(s.steps, &Step::device_busy_ns)); });
  add(on_cpu ? "outside" : "device idle",
      [](const Summary& s) { return time_text(median_of(s.steps, &Step::device_idle_ns)); });
  add("kernels", [](const Summary& s) { return number(median_of(s.steps, &Step::kernels)); });
  add("regime", [](const Summary& s) { return s.steps.empty() ? "-" : regime_name(regime_of(s.steps)); });
  add("steps", [](const Summary& s) { return number(static_cast<int64_t>(s.steps.size())); });
  if (std::ranges::any_of(summaries, [](const Summary& s) { return s.launch.launches > 0; }))
    add("launch latency",
        [](const Summary& s) { return s.launch.launches > 0 ? time_text(s.launch.median_latency_ns) : "-"; });
  add("problems", [](const Summary& s) { return number(static_cast<int64_t>(s.problems.size())); });
  return table.to_string();
}

// A kernel's time in a step, the mean; in the whole trace where it marks none.
int64_t per_step_ns(const Summary& summary, const KernelStats& kernel) {
  if (summary.steps.empty()) return kernel.total_ns;
  return kernel.in_steps_ns / static_cast<int64_t>(summary.steps.size());
}

// Times of the kernels that any of the files has: per step, or a trace of more steps would look slower.
std::string kernels_side_by_side(const std::vector<Summary>& summaries, int rows) {
  std::vector<std::pair<const KernelStats*, std::vector<int64_t>>> times;  // the first of its name
  std::unordered_map<std::string_view, size_t> row_of;
  std::unordered_map<std::string_view, int> rows_of_brief;
  for (size_t f = 0; f < summaries.size(); ++f)
    for (const KernelStats& kernel : summaries[f].kernels) {
      const auto [at, added] = row_of.try_emplace(kernel.name, times.size());
      if (added) times.emplace_back(&kernel, summaries.size());
      if (added) ++rows_of_brief[kernel.brief];
      times[at->second].second[f] += per_step_ns(summaries[f], kernel);
    }
  const bool all_have_steps =
      std::ranges::none_of(summaries, [](const Summary& s) { return s.steps.empty(); });
  return limited_table(
      fmt::format("Kernels, time per step (mean{})",
                  all_have_steps ? "" : "; of the whole trace where it marks no steps"),
      TextTable(file_columns("Kernel", summaries)), times, rows, [&](const auto& row) {
        const KernelStats& kernel = *row.first;
        std::vector<std::string> cells{rows_of_brief[kernel.brief] > 1 ? kernel.name : kernel.brief};
        for (const int64_t ns : row.second) cells.push_back(ns > 0 ? time_text(ns) : "-");
        return cells;
      });
}

}  // namespace

std::string devices_text(const std::vector<std::string>& names) {
  std::map<std::string, int64_t> counts;
  for (const std::string& name : names) ++counts[name];
  std::vector<std::string> texts;
  for (const auto& [name, count] : counts)
    texts.push_back(count == 1 ? name : fmt::format("{}x {}", count, name));
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string summary_text(const std::vector<Summary>& summaries, const SummaryText& options) {
  std::string text;
  if (summaries.size() > 1)
    text = totals_side_by_side(summaries) + kernels_side_by_side(summaries, options.rows) + '\n';
  for (size_t i = 0; i < summaries.size(); ++i)
    text += fmt::format("{}{}", i ? "\n" : "", one_text(summaries[i], options));
  return text;
}

}  // namespace epilogue::trace
