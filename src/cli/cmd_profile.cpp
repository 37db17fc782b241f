#include <algorithm>
#include <chrono>
#include <memory>
#include <span>

#include <fmt/format.h>

#include "backend/backend.h"
#include "backend/cpu/peak.h"
#include "base/check.h"
#include "base/format.h"
#include "base/threads.h"
#include "cli/commands.h"
#include "cli/cores.h"
#include "cli/output.h"
#include "cli/problem.h"
#include "epilogue/device.h"
#include "epilogue/memory.h"
#include "epilogue/profiler.h"
#include "trace/links.h"
#include "trace/placement.h"
#include "trace/print.h"
#include "trace/report.h"
#include "trace/spread.h"
#include "trace/steps.h"
#include "trace/summary.h"

namespace epilogue::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::string mode = "eager", trace, report, kernels, sort = "self_cpu_time_total", format = "table";
  bool mode_given = false, compile = false, record_shapes = false, profile_memory = false,
       group_by_shape = false;
  Schedule schedule{.wait = 1, .warmup = 1, .active = 3, .repeat = 1};
  int rows = 20, threads = 0;
};

struct ModeResult {
  nn::Mode mode = nn::Mode::eager;
  nn::Mode runs_as = nn::Mode::eager;
  std::unique_ptr<Profiler> profiler;  // holds the last window's trace, which all that follows is of
  KeyAverages averages;
  std::vector<int64_t> step_ns;  // in order of size
  int64_t kernels_per_step = 0;
  std::vector<std::string> kernels;  // of the last step, in order
  MemoryStats memory;
  std::string memory_summary;
  std::string trace_file;
  std::string note;  // mode_note
  int64_t dropped = 0;

  trace::Spread spread() const { return trace::Spread(step_ns); }
  double median_us() const { return static_cast<double>(trace::median_of(step_ns)) / 1e3; }
  double min_us() const { return static_cast<double>(step_ns.front()) / 1e3; }
  double max_us() const { return static_cast<double>(step_ns.back()) / 1e3; }
};

// "t.json.gz" for the only mode, "t.eager.json.gz" among several.
std::string trace_file_for(const std::string& path, nn::Mode mode, bool several) {
  if (path.empty() || !several) return path;
  const size_t dot = path.rfind(".json");
  return path.substr(0, dot) + "." + nn::mode_name(mode) + path.substr(dot);
}

// A device's kernel is called by its compiler: the package it comes from stands on the op around its launch.
std::string kernel_text(const trace::Trace& trace, const trace::Event& kernel, uint32_t op) {
  std::string name(trace.name(kernel));
  if (op == trace::kNoEvent || kernel.kind == trace::EventKind::cpu_kernel) return name;
  const std::string_view around = trace.name(trace.events[op]);
  const bool package =
      around.find('/') != around.npos && around.find('@') != around.npos && around.find(' ') == around.npos;
  return package ? fmt::format("{} [{}]", name, around) : name;
}

void take_window(const Profiler& profiler, ModeResult& result) {
  const trace::Trace& trace = profiler.trace();
  const auto launches = trace::launching_calls(trace);
  const auto steps = trace::find_steps(trace, launches);
  for (const trace::Step& step : steps) result.step_ns.push_back(step.wall_ns);
  std::sort(result.step_ns.begin(), result.step_ns.end());
  result.kernels_per_step = steps.back().kernels;
  const bool on_device = std::ranges::any_of(
      trace.events, [](const trace::Event& event) { return trace::is_device_work(event.kind); });
  const auto counted = on_device ? trace::EventKind::kernel : trace::EventKind::cpu_kernel;
  const auto places = trace::place_events(trace, launches, steps);
  for (size_t i = 0; i < places.size(); ++i)
    if (trace.events[i].kind == counted && places[i].step == steps.size() - 1)
      result.kernels.push_back(kernel_text(trace, trace.events[i], places[i].op));
  result.dropped = profiler.dropped();
}

// A device's first calls load kernels and choose among algorithms, which a profile of a few steps would be
// full of.
void warm_up(const Workload& workload, Device device) {
  if (device.type == DeviceType::cpu) return;
  progress("warming up");
  for (const auto begin = Clock::now(); Clock::now() - begin < std::chrono::milliseconds(500);) {
    workload.forward(workload.x);
    synchronize(device);
  }
}

ModeResult profile_mode(const Problem& problem, nn::Mode mode, const Options& options, bool several,
                        CoreWait& core_wait) {
  KernelMap kernels;
  if (!options.kernels.empty() && mode == nn::Mode::tuned) kernels = {{"GatedMlp", options.kernels}};
  const Workload workload = make_workload(problem, mode, kernels);
  wait_until_compiled(workload, mode);
  Backend& backend = backend_for(problem.device);
  ModeResult result{.mode = mode, .trace_file = trace_file_for(options.trace, mode, several)};
  const char* range = problem.kind == ProblemKind::mlp          ? "mlp_fwd"
                      : problem.kind == ProblemKind::matmul_add ? "matmul_add_fwd"
                                                                : "linear_fwd";
  result.profiler = std::make_unique<Profiler>(
      ProfilerOptions{.schedule = options.schedule,
                      .record_shapes = options.record_shapes || options.group_by_shape,
                      .profile_memory = options.profile_memory,
                      .with_flops = true});
  Profiler& profiler = *result.profiler;
  warm_up(workload, problem.device);
  const Schedule& s = options.schedule;
  const int64_t steps = s.skip_first + int64_t{s.repeat} * (int64_t{s.wait} + s.warmup + s.active);
  const int64_t last_window = steps - s.active;
  const bool on_cpu = problem.device.type == DeviceType::cpu;
  // Before the window's first step begins: what it takes must not be in that step.
  const auto begin_last_window = [&] {
    reset_peak_memory(problem.device);
    if (on_cpu) core_wait.begin();
  };
  if (last_window == 0) begin_last_window();
  profiler.start();
  for (int64_t i = 0; i < steps; ++i) {
    progress(fmt::format("{}: step {} of {}", nn::mode_name(mode), i + 1, steps));
    {
      const Range forward(range);
      workload.forward(workload.x);
      backend.synchronize();
    }
    if (i + 1 == last_window) begin_last_window();
    profiler.step();
  }
  profiler.stop();
  if (on_cpu) core_wait.end();
  progress("");
  take_window(profiler, result);
  result.averages = profiler.key_averages(options.group_by_shape);
  result.memory = memory_stats(problem.device);
  result.memory_summary = memory_summary(problem.device);
  result.note = mode_note(workload, mode);
  // What fused falls back to is our tuned, not a package's.
  result.runs_as = options.kernels.empty() ? mode_run(workload, mode) : mode;
  if (!result.trace_file.empty()) profiler.export_chrome_trace(result.trace_file);
  return result;
}

std::string ops_json(const KeyAverages& averages) {
  std::vector<std::string> rows;
  for (const OpStats& op : averages.rows) rows.push_back(trace::op_json(op));
  return fmt::format("[{}]", fmt::join(rows, ","));
}

std::string to_json(const Problem& problem, const std::vector<ModeResult>& results) {
  std::vector<std::string> modes;
  for (const ModeResult& r : results)
    modes.push_back(fmt::format(
        R"({{"mode":"{}","kernels_per_step":{},"step_us":{{"median":{:.3f},"min":{:.3f},"max":{:.3f}}},"ops":{},)"
        R"("memory":{{"peak_allocated":{},"peak_reserved":{}}},"trace":{},"dropped":{},"note":{}}})",
        nn::mode_name(r.mode), r.kernels_per_step, r.median_us(), r.min_us(), r.max_us(),
        ops_json(r.averages), r.memory.peak_allocated, r.memory.peak_reserved,
        r.trace_file.empty() ? "null" : json_quote(r.trace_file), r.dropped,
        r.note.empty() ? "null" : json_quote(r.note)));
  return fmt::format(R"({{"device":"{}","dtype":"{}","problem":{},"modes":[{}]}})"
                     "\n",
                     device_name(problem.device), dtype_name(problem.dtype), problem.to_json(),
                     fmt::join(modes, ","));
}

std::string describe(const Problem& problem, const ModeResult& r, const Options& options) {
  const bool on_cpu = problem.device.type == DeviceType::cpu;
  TableOptions table{.sort_by = options.sort,
                     .rows = options.rows,
                     .peak_gflops = on_cpu ? cpu::peak_gflops(problem.dtype, problem.rows()) : 0};
  std::string text =
      fmt::format("\n{}: {} per step\n", nn::mode_name(r.mode), trace::counted(r.kernels_per_step, "kernel"));
  for (const std::string& kernel : r.kernels) text += fmt::format("  {}\n", kernel);
  if (!r.note.empty()) text += r.note + "\n";
  text += "\n" + r.averages.table(table) + trace::rows_left_out(r.averages.rows.size(), options.rows);
  if (options.profile_memory) text += "\n" + r.memory_summary;
  return text;
}

// "-" where it says nothing of the mode: the same was measured in a row before.
std::string versus_first(const std::vector<ModeResult>& results, size_t row) {
  const ModeResult &first = results.front(), &r = results[row];
  if (row == 0) return "1.00x";
  const auto before = std::span(results).first(row);
  if (std::ranges::any_of(before, [&](const ModeResult& other) { return other.runs_as == r.runs_as; }))
    return "-";
  return fmt::format("{:.2f}x{}", first.median_us() / r.median_us(),
                     within_noise(first.spread(), r.spread()) ? " (within noise)" : "");
}

std::string compare(const Problem& problem, const std::vector<ModeResult>& results) {
  TextTable table({{"mode", false},
                   {"kernels per step"},
                   {"step, median"},
                   {"min"},
                   {"max"},
                   {"GFLOP/s"},
                   {"of peak"},
                   {"peak memory"},
                   {"vs first"},
                   {"trace", false}});
  for (size_t i = 0; i < results.size(); ++i) {
    const ModeResult& r = results[i];
    const double gflops = problem.flops() / r.median_us() / 1e3;
    const std::string of_peak =
        problem.device.type == DeviceType::cpu
            ? fmt::format("{:.0f}%", 100 * gflops / cpu::peak_gflops(problem.dtype, problem.rows()))
            : "-";
    table.add_row({nn::mode_name(r.mode), std::to_string(r.kernels_per_step), format_us(r.median_us()),
                   format_us(r.min_us()), format_us(r.max_us()), fmt::format("{:.1f}", gflops), of_peak,
                   format_bytes(r.memory.peak_allocated), versus_first(results, i), r.trace_file});
  }
  return table.to_string();
}

void write_report_of(const std::vector<ModeResult>& results, const std::string& path) {
  std::vector<const trace::Trace*> traces;
  trace::ReportOptions names;
  for (const ModeResult& result : results) {
    traces.push_back(&result.profiler->trace());
    names.names.emplace_back(nn::mode_name(result.mode));
  }
  trace::write_report(traces, path, names);
}

void print_tables(const Problem& problem, const std::vector<ModeResult>& results, const Options& options) {
  std::string text = problem.to_string() + "\n";
  for (const ModeResult& result : results) text += describe(problem, result, options);
  if (problem.device.type == DeviceType::cpu)
    text += fmt::format("Peak measured in this run: {:.0f} GFLOP/s.\n",
                        cpu::peak_gflops(problem.dtype, problem.rows()));
  fmt::print("{}\n{}", text, compare(problem, results));
  if (!options.report.empty()) fmt::print("page: {}\n", options.report);
}

void run(const Problem& problem, const Options& options) {
  if (options.threads > 0) set_thread_count(options.threads);
  EP_CHECK(!options.compile || !options.mode_given || options.mode == "compiled",
           "--compile is --mode compiled, got --mode {} beside it", options.mode);
  EP_CHECK(options.trace.empty() || options.trace.ends_with(".json") || options.trace.ends_with(".json.gz"),
           "--trace: expected FILE.json or FILE.json.gz, got {}", options.trace);
  if (!options.report.empty()) check_page_name("--report", options.report);
  std::string named = options.compile ? "compiled" : options.mode;
  if (!options.kernels.empty() && !options.mode_given && !options.compile) named = "tuned";
  const auto modes = modes_from_list(named);
  EP_CHECK(options.kernels.empty() || std::ranges::find(modes, nn::Mode::tuned) != modes.end(),
           "--kernels is for the mode tuned, got --mode {}", named);
  std::vector<ModeResult> results;
  const bool on_cpu = problem.device.type == DeviceType::cpu;
  if (on_cpu) warn_of_too_many_threads();
  CoreWait core_wait;
  for (const nn::Mode mode : modes)
    results.push_back(profile_mode(problem, mode, options, named == "all" || modes.size() > 1, core_wait));
  for (const ModeResult& result : results) print_problems(result.profiler->trace());
  if (!options.report.empty()) write_report_of(results, options.report);
  if (options.format == "json")
    fmt::print("{}", to_json(problem, results));
  else
    print_tables(problem, results, options);
  if (on_cpu) core_wait.warn_if_disturbed();
}

void add_profile_of(Command parent, const char* name, const char* what, ProblemKind kind) {
  const Command command = parent.add_subcommand(name, what);
  auto problem = std::make_shared<ProblemOptions>(command, kind);
  auto options = std::make_shared<Options>();
  const Option mode = command
                          .add_option("--mode", options->mode,
                                      "of eager, compiled, tuned, fused one, several with commas, or all")
                          .show_default();
  command.add_flag("--compile", options->compile, "the same as --mode compiled");
  command.add_option("--wait", options->schedule.wait, "steps to pass over").at_least(0).show_default();
  command.add_option("--warmup", options->schedule.warmup, "steps to record and throw away")
      .at_least(0)
      .show_default();
  command.add_option("--active", options->schedule.active, "steps to record").at_least(1).show_default();
  command.add_option("--repeat", options->schedule.repeat, "how often; the last window is shown")
      .at_least(1)
      .show_default();
  command.add_flag("--record-shapes", options->record_shapes, "keep the shapes of each op's inputs");
  command.add_flag("--profile-memory", options->profile_memory, "keep allocations and frees");
  command.add_flag("--group-by-shape", options->group_by_shape, "a row per op and shapes");
  command
      .add_option("--trace", options->trace,
                  "write the trace: FILE.json or FILE.json.gz; of several modes FILE.MODE.json")
      .not_empty();
  command.add_option("--report", options->report, "write a page that shows the trace: FILE.html").not_empty();
  command.add_option("--sort", options->sort, "the table's order: PyTorch's keys").show_default();
  command.add_option("--rows", options->rows, "rows of the table; -1: all").at_least(-1).show_default();
  command.add_option("--threads", options->threads, "CPU threads; default: all").within(1, kMostThreads);
  add_format_option(command, options->format);
  command.footer(fmt::format(
      "Examples:\n  epilogue profile {0}\n  epilogue profile {0} --record-shapes --trace {0}.json.gz", name));
  if (kind == ProblemKind::mlp)
    command.add_option("--kernels", options->kernels,
                       "OWNER/NAME@VERSION: a kernel package for the mode tuned");
  command.callback([problem, options, mode] {
    options->mode_given = mode.given();
    run(problem->finish(), *options);
  });
}

}  // namespace

void add_profile(Command app, int&) {
  const Command command = app.add_subcommand("profile", "run a layer under the profiler");
  command.require_subcommand();
  add_profile_of(command, "linear", "x times a weight, plus a bias: one kernel", ProblemKind::linear);
  add_profile_of(command, "matmul-add", "the pair that linear replaces: two kernels",
                 ProblemKind::matmul_add);
  add_profile_of(command, "mlp", "the (gated) MLP", ProblemKind::mlp);
}

}  // namespace epilogue::cli
