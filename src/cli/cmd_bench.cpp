#include <algorithm>
#include <optional>
#include <set>

#include <unistd.h>

#include <fmt/format.h>

#include "backend/cpu/packed_weight.h"
#include "backend/cpu/peak.h"
#include "base/check.h"
#include "base/format.h"
#include "base/threads.h"
#include "cli/commands.h"
#include "cli/cores.h"
#include "cli/machine.h"
#include "cli/measure.h"
#include "cli/measure_device.h"
#include "cli/output.h"
#include "cli/problem.h"
#include "epilogue/profiler.h"
#include "trace/print.h"

namespace epilogue::cli {
namespace {

// Far more than the last cache has room for does not come from there.
bool caches_may_hold(const Problem& problem) {
  const long last_cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
  return last_cache <= 0 || problem.bytes() < 4.0 * static_cast<double>(last_cache);
}

struct Row {
  Problem problem;
  nn::Mode mode;
  Timing timing;
  std::optional<DeviceTiming> device;  // of a device with queues; `timing` is its graph time then
  nn::Mode runs_as = nn::Mode::eager;
  double of_ceiling = 0, of_copy = 0;  // shares of the two ceilings
  int kernels = 0;
  std::string implementation;  // the kernels, in the order they first ran
  std::string note;            // mode_note

  double gflops() const { return problem.flops() / timing.median_us / 1e3; }
  double gbs() const { return problem.bytes() / timing.median_us / 1e3; }
  // Reads alone may pass a copy by a little; what passes it by more comes from the caches, which memory does
  // not bound, or the copy was disturbed.
  bool from_caches() const { return of_copy > 1.25 && caches_may_hold(problem); }
  // Of what memory does not bound, arithmetic may come near its own ceiling.
  bool bound_by_caches() const { return from_caches() && of_ceiling < 0.5; }
  bool nearer_to_copy() const { return of_copy > of_ceiling && !from_caches(); }
};

void see_kernels(const Workload& workload, Row& row) {
  Profiler profiler;
  profiler.start();
  workload.forward(workload.x);
  synchronize(row.problem.device);
  profiler.stop();
  std::set<std::string_view> seen;
  for (const trace::Event& event : profiler.trace().events) {
    if (event.kind != trace::EventKind::cpu_kernel && event.kind != trace::EventKind::kernel) continue;
    ++row.kernels;
    const std::string_view name = profiler.trace().name(event);
    if (seen.insert(name).second)
      row.implementation += (row.implementation.empty() ? "" : " ") + std::string(name);
  }
}

double ceiling_gflops(const Problem& problem) {
  return problem.device.type == DeviceType::cuda ? device_gflops(problem.device, problem.dtype)
                                                 : cpu::peak_gflops(problem.dtype, problem.rows());
}

double ceiling_gbs(const Problem& problem) {
  return problem.device.type == DeviceType::cuda ? device_copy_gbs(problem.device)
                                                 : cpu::copy_bandwidth_gbs();
}

// Modes of one problem: in turns on the CPU; a device's, whose inputs and weights fill its cache, one after
// the other.
std::vector<Row> bench(const Problem& problem, const std::vector<nn::Mode>& modes, double min_time,
                       TimedBy clock, CoreWait& core_wait) {
  const bool device = problem.device.type == DeviceType::cuda;
  std::vector<Workload> workloads;
  std::vector<Row> rows;
  for (const nn::Mode mode : modes) {
    progress(fmt::format("{} {}", nn::mode_name(mode), problem.to_string()));
    workloads.push_back(make_workload(problem, mode));
    wait_until_compiled(workloads.back(), mode);
    rows.push_back({.problem = problem, .mode = mode});
    if (!device) continue;
    rows.back().device = measure_on_device(problem, mode, min_time);
    rows.back().timing = rows.back().device->graph;
  }
  if (!device) {
    progress(fmt::format("{} in turns", problem.to_string()));
    std::vector<std::function<void()>> calls;
    for (const Workload& workload : workloads) calls.push_back([&workload] { workload.forward(workload.x); });
    core_wait.begin();
    const std::vector<Timing> timings = measure_in_turns(calls, min_time, clock);
    core_wait.end();
    for (size_t i = 0; i < rows.size(); ++i) rows[i].timing = timings[i];
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].of_ceiling = rows[i].gflops() / ceiling_gflops(problem);
    rows[i].of_copy = rows[i].gbs() / ceiling_gbs(problem);
    see_kernels(workloads[i], rows[i]);
    rows[i].note = mode_note(workloads[i], rows[i].mode);
    rows[i].runs_as = mode_run(workloads[i], rows[i].mode);
  }
  return rows;
}

// How much quicker a row is than its problem's first one, "-" where the same ran in a row before: a problem's
// rows follow each other.
std::vector<std::string> quicker_than_first(const std::vector<Row>& rows, size_t modes) {
  std::vector<std::string> factors;
  std::set<nn::Mode> seen;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i % modes == 0) seen.clear();
    const Row& first = rows[i - i % modes];
    const Timing &before = first.timing, &now = rows[i].timing;
    const bool noise = i % modes > 0 && within_noise(before.spread, now.spread);
    factors.push_back(
        seen.insert(rows[i].runs_as).second
            ? fmt::format("{:.2f}x{}", before.median_us / now.median_us, noise ? " (within noise)" : "")
            : "-");
  }
  return factors;
}

std::string device_json(const Row& r) {
  if (!r.device) return "";
  return fmt::format(R"("stream_us":{:.3f},"wall_us":{:.3f},"wall_p95_us":{:.3f},"rotated_sets":{},)",
                     r.device->stream.median_us, r.device->wall.median_us, r.device->wall.p95_us,
                     r.device->sets);
}

std::string act_json(const Problem& problem) {
  return problem.kind == ProblemKind::mlp ? json_quote(act_name(problem.act)) : "null";
}

std::string row_json(const Row& r) {
  return fmt::format(
      R"({{"kind":"{}","m":{},"dim":{},"hidden":{},"act":{},"dtype":"{}","device":"{}","mode":"{}","median_us":{:.3f},)"
      R"("min_us":{:.3f},"p95_us":{:.3f},{}"calls":{},"gflops":{:.3f},"of_ceiling":{:.4f},)"
      R"("gbs":{:.3f},"of_copy":{:.4f},"nearer_ceiling":"{}","kernels":{},"implementation":{},"note":{}}})",
      kind_name(r.problem.kind), r.problem.rows(), r.problem.dim, r.problem.hidden, act_json(r.problem),
      dtype_name(r.problem.dtype), device_name(r.problem.device), nn::mode_name(r.mode), r.timing.median_us,
      r.timing.min_us, r.timing.p95_us, device_json(r), r.timing.calls, r.gflops(), r.of_ceiling, r.gbs(),
      r.of_copy, r.nearer_to_copy() ? "copy_gbs" : "gflops", r.kernels, json_quote(r.implementation),
      r.note.empty() ? "null" : json_quote(r.note));
}

std::string ceilings_json(const Problem& problem) {
  if (problem.device.type == DeviceType::cuda)
    return fmt::format(R"({{"gflops":{:.1f},"copy_gbs":{:.1f}}})", ceiling_gflops(problem),
                       ceiling_gbs(problem));
  return fmt::format(R"({{"gflops":{:.1f},"amx_bf16_gflops":{},"products_gflops":{:.1f},"copy_gbs":{:.1f}}})",
                     problem.dtype == DType::f64 ? cpu::peak_fma_f64_gflops() : cpu::peak_fma_gflops(),
                     cpu::has_amx() ? fmt::format("{:.1f}", cpu::peak_amx_bf16_gflops()) : "null",
                     ceiling_gflops(problem), ceiling_gbs(problem));
}

std::string to_json(const std::vector<Row>& rows) {
  std::vector<std::string> texts;
  for (const Row& r : rows) texts.push_back(row_json(r));
  const cpu::PackingCost packing = cpu::packing_cost();
  return fmt::format(
      R"({{"machine":{},"ceilings":{},"packing":{{"weights":{},"bytes":{},"ms":{:.3f}}},"rows":[{}]}})"
      "\n",
      machine_json(), ceilings_json(rows.front().problem), packing.weights, packing.bytes,
      packing.seconds * 1e3, fmt::join(texts, ","));
}

std::string ceilings_text(const Problem& problem) {
  if (problem.device.type == DeviceType::cuda)
    return fmt::format(
        "Times are the device's own, from graphs over inputs and weights that rotate past its cache; stream: "
        "calls queued one behind the other; wall: a call and its synchronisation.\n"
        "Ceilings measured in this run: {:.0f} TFLOP/s, copy {:.2f} TB/s.\n",
        ceiling_gflops(problem) / 1e3, ceiling_gbs(problem) / 1e3);
  const cpu::PackingCost packing = cpu::packing_cost();
  const std::string packed =
      packing.weights == 0
          ? ""
          : fmt::format(" Packed {} ({}) once, in {}.", trace::counted(packing.weights, "weight"),
                        format_bytes(packing.bytes), format_us(packing.seconds * 1e6));
  const bool in_parts = problem.dtype == DType::f32 && ceiling_gflops(problem) > cpu::peak_fma_gflops();
  const std::string by =
      in_parts ? fmt::format(" (by AMX in three bf16 parts; {:.0f} by FMA)", cpu::peak_fma_gflops()) : "";
  return fmt::format("Ceilings measured in this run: {:.0f} GFLOP/s{}, copy {:.1f} GB/s.{}\n",
                     ceiling_gflops(problem), by, ceiling_gbs(problem), packed);
}

std::string to_table(const std::vector<Row>& rows, size_t modes) {
  const bool device = rows.front().device.has_value();
  const bool mlp = rows.front().problem.kind == ProblemKind::mlp;
  std::vector<TextTable::Column> columns{{"M"}};
  if (mlp)
    columns.insert(columns.end(), {{"dim"}, {"hidden"}, {"act", false}});
  else
    columns.insert(columns.end(), {{"in"}, {"out"}});
  columns.insert(columns.end(), {{"dtype", false}, {"mode", false}, {"median"}, {"min"}, {"p95"}});
  if (device) columns.insert(columns.end(), {{"stream"}, {"wall"}});
  const bool several = modes > 1;
  const std::string versus = fmt::format("vs {}", nn::mode_name(rows.front().mode));
  if (several) columns.push_back({versus});
  columns.insert(columns.end(),
                 {{"GFLOP/s"}, {"GB/s"}, {"of ceiling"}, {"kernels"}, {"implementation", false}});
  TextTable table(columns);
  const std::vector<std::string> quicker = quicker_than_first(rows, modes);
  for (size_t i = 0; i < rows.size(); ++i) {
    const Row& r = rows[i];
    std::vector<std::string> cells{std::to_string(r.problem.rows()), std::to_string(r.problem.dim),
                                   std::to_string(r.problem.hidden)};
    if (mlp) cells.push_back(act_name(r.problem.act));
    cells.insert(cells.end(),
                 {dtype_name(r.problem.dtype), nn::mode_name(r.mode), format_us(r.timing.median_us),
                  format_us(r.timing.min_us), format_us(r.timing.p95_us)});
    if (device) {
      cells.push_back(format_us(r.device->stream.median_us));
      cells.push_back(format_us(r.device->wall.median_us));
    }
    if (several) cells.push_back(quicker[i]);
    cells.push_back(fmt::format("{:.1f}", r.gflops()));
    cells.push_back(fmt::format("{:.1f}", r.gbs()));
    cells.push_back(r.nearer_to_copy()    ? fmt::format("{:.0f}% of copy", r.of_copy * 100)
                    : r.bound_by_caches() ? "caches"
                                          : fmt::format("{:.0f}% of FLOP/s", r.of_ceiling * 100));
    cells.push_back(std::to_string(r.kernels));
    cells.push_back(r.implementation);
    table.add_row(cells);
  }
  std::string text = table.to_string() + ceilings_text(rows.front().problem) +
                     "GB/s count weights, x and the result once each";
  text += std::ranges::any_of(rows, &Row::from_caches)
              ? "; more than a copy's come from the caches, whose speed no ceiling here tells.\n"
              : ".\n";
  std::set<std::string> told;  // each with the dtype that it holds for
  for (const Row& r : rows) {
    const std::string note =
        r.note.empty() ? "" : fmt::format("{}: {}\n", dtype_name(r.problem.dtype), r.note);
    if (told.insert(note).second) text += note;
  }
  return text;
}

struct Options {
  std::string modes = "all", shapes, format = "table", clock = "wall";
  double min_time = 0.5;
  int threads = 0;
};

void add_bench_of(Command parent, const char* name, const char* what, ProblemKind kind) {
  const Command command = parent.add_subcommand(name, what);
  auto problem = std::make_shared<ProblemOptions>(command, kind);
  auto options = std::make_shared<Options>();
  command.add_option("--modes,--mode", options->modes, "modes, with commas, or all").show_default();
  command.add_option("--shapes", options->shapes, "a file with one problem a line, see bench/shapes");
  command.add_option("--min-time", options->min_time, "seconds to measure each row for")
      .at_least(0)
      .show_default();
  command.add_option("--threads", options->threads, "CPU threads; default: all").within(1, kMostThreads);
  command
      .add_option(
          "--clock", options->clock,
          "wall, or thread: the processor time of the one CPU thread, for a machine that others use too")
      .one_of({"wall", "thread"})
      .show_default();
  add_format_option(command, options->format);
  command.footer(fmt::format("Example:\n  epilogue bench {} --dtype bf16 --min-time 1", name));
  command.callback([problem, options] {
    const TimedBy clock = options->clock == "thread" ? TimedBy::thread : TimedBy::wall;
    EP_CHECK(clock == TimedBy::wall || options->threads <= 1,
             "--clock thread is the time of one CPU thread, got --threads {} beside it", options->threads);
    const Problem one = problem->finish();
    const bool on_cpu = one.device.type == DeviceType::cpu;
    EP_CHECK(clock == TimedBy::wall || on_cpu,
             "--clock thread is the time of a CPU thread, got --device {} beside it",
             device_name(one.device));
    if (clock == TimedBy::thread) options->threads = 1;
    if (options->threads > 0) set_thread_count(options->threads);
    EP_CHECK(options->shapes.empty() || !problem->shape_given(),
             "--shapes names the problems, got {} beside it", problem->shape_given());
    const auto problems = options->shapes.empty() ? std::vector{one} : read_shapes(options->shapes, one);
    const std::vector<nn::Mode> modes = modes_from_list(options->modes);
    if (on_cpu) warn_of_too_many_threads();
    std::vector<Row> rows;
    CoreWait core_wait;
    for (const Problem& each : problems) {
      const std::vector<Row> found = bench(each, modes, options->min_time, clock, core_wait);
      rows.insert(rows.end(), found.begin(), found.end());
    }
    progress("");
    fmt::print("{}", options->format == "json" ? to_json(rows) : to_table(rows, modes.size()));
    if (on_cpu && clock == TimedBy::wall) core_wait.warn_if_disturbed();
  });
}

}  // namespace

void add_bench(Command app, int&) {
  const Command command =
      app.add_subcommand("bench", "time a layer in its modes, beside the machine's ceilings");
  command.require_subcommand();
  add_bench_of(command, "linear", "x times a weight, plus a bias", ProblemKind::linear);
  add_bench_of(command, "mlp", "the (gated) MLP", ProblemKind::mlp);
}

}  // namespace epilogue::cli
