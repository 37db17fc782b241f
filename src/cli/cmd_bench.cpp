#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "backend/cpu/packed_weight.h"
#include "backend/cpu/peak.h"
#include "base/format.h"
#include "base/threads.h"
#include "cli/commands.h"
#include "cli/machine.h"
#include "cli/measure.h"
#include "cli/output.h"
#include "cli/problem.h"
#include "epilogue/profiler.h"

namespace epilogue::cli {
namespace {

struct Row {
  Problem problem;
  nn::Mode mode;
  Timing timing;
  double of_ceiling = 0;
  int kernels = 0;
  std::string implementation;  // the kernels, in the order they first ran

  double gflops() const { return problem.flops() / timing.median_us / 1e3; }
};

void see_kernels(const Workload& workload, Row& row) {
  Profiler profiler;
  profiler.start();
  workload.forward(workload.x);
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

Row bench(const Problem& problem, nn::Mode mode, double min_time) {
  const Workload workload = make_workload(problem, mode);
  Row row{.problem = problem, .mode = mode};
  row.timing = measure([&] { workload.forward(workload.x); }, min_time);
  row.of_ceiling = row.gflops() / cpu::peak_gflops(problem.dtype);
  see_kernels(workload, row);
  return row;
}

std::string to_json(const std::vector<Row>& rows) {
  std::vector<std::string> texts;
  for (const Row& r : rows)
    texts.push_back(fmt::format(
        R"({{"kind":"{}","m":{},"dim":{},"hidden":{},"act":"{}","dtype":"{}","device":"{}","mode":"{}","median_us":{:.3f},)"
        R"("min_us":{:.3f},"p95_us":{:.3f},"calls":{},"gflops":{:.3f},"of_ceiling":{:.4f},"kernels":{},"implementation":{}}})",
        kind_name(r.problem.kind), r.problem.rows(), r.problem.dim, r.problem.hidden, act_name(r.problem.act),
        dtype_name(r.problem.dtype), device_name(r.problem.device), nn::mode_name(r.mode), r.timing.median_us,
        r.timing.min_us, r.timing.p95_us, r.timing.calls, r.gflops(), r.of_ceiling, r.kernels,
        json_quote(r.implementation)));
  const cpu::PackingCost packing = cpu::packing_cost();
  return fmt::format(
      R"({{"machine":{},"ceilings":{{"gflops":{:.1f},"amx_bf16_gflops":{:.1f},"copy_gbs":{:.1f}}},)"
      R"("packing":{{"weights":{},"bytes":{},"ms":{:.3f}}},"rows":[{}]}})"
      "\n",
      machine_json(), cpu::peak_fma_gflops(), cpu::peak_amx_bf16_gflops(), cpu::copy_bandwidth_gbs(),
      packing.weights, packing.bytes, packing.seconds * 1e3, fmt::join(texts, ","));
}

std::string to_table(const std::vector<Row>& rows) {
  TextTable table({{"M"},
                   {"dim"},
                   {"hidden"},
                   {"act", false},
                   {"dtype", false},
                   {"mode", false},
                   {"median"},
                   {"min"},
                   {"p95"},
                   {"GFLOP/s"},
                   {"of peak"},
                   {"kernels"},
                   {"implementation", false}});
  for (const Row& r : rows)
    table.add_row({std::to_string(r.problem.rows()), std::to_string(r.problem.dim),
                   std::to_string(r.problem.hidden), act_name(r.problem.act), dtype_name(r.problem.dtype),
                   nn::mode_name(r.mode), format_us(r.timing.median_us), format_us(r.timing.min_us),
                   format_us(r.timing.p95_us), fmt::format("{:.1f}", r.gflops()),
                   fmt::format("{:.0f}%", r.of_ceiling * 100), std::to_string(r.kernels), r.implementation});
  const cpu::PackingCost packing = cpu::packing_cost();
  return table.to_string() + fmt::format(
                                 "Ceilings measured in this run: {:.0f} GFLOP/s, copy {:.1f} GB/s. Packed {} "
                                 "weights ({}) once, in {}.\n",
                                 cpu::peak_gflops(rows.front().problem.dtype), cpu::copy_bandwidth_gbs(),
                                 packing.weights, format_bytes(packing.bytes),
                                 format_us(packing.seconds * 1e6));
}

struct Options {
  std::string modes = "all", shapes, format = "table";
  double min_time = 0.5;
  int threads = 0;
};

void add_bench_of(CLI::App& parent, const char* name, const char* what, ProblemKind kind) {
  CLI::App* command = parent.add_subcommand(name, what);
  auto problem = std::make_shared<ProblemOptions>(*command, kind);
  auto options = std::make_shared<Options>();
  command->add_option("--modes", options->modes, "modes, with commas, or all")->capture_default_str();
  command->add_option("--shapes", options->shapes, "a file with one problem a line, see bench/shapes");
  command->add_option("--min-time", options->min_time, "seconds to measure each row for")
      ->capture_default_str();
  command->add_option("--threads", options->threads, "CPU threads; default: all")->check(CLI::PositiveNumber);
  add_format_option(*command, options->format);
  command->footer(fmt::format("Example:\n  epilogue bench {} --dtype bf16 --min-time 1", name));
  command->callback([problem, options] {
    if (options->threads > 0) set_thread_count(options->threads);
    const Problem one = problem->finish();
    const auto problems = options->shapes.empty() ? std::vector{one} : read_shapes(options->shapes, one);
    std::vector<Row> rows;
    for (const Problem& each : problems)
      for (const nn::Mode mode : modes_from_list(options->modes)) {
        progress(fmt::format("{} {}", nn::mode_name(mode), each.to_string()));
        rows.push_back(bench(each, mode, options->min_time));
      }
    progress("");
    fmt::print("{}", options->format == "json" ? to_json(rows) : to_table(rows));
  });
}

}  // namespace

void add_bench(CLI::App& app, int&) {
  CLI::App* command = app.add_subcommand("bench", "time a layer in its modes, beside the machine's ceilings");
  command->require_subcommand(1);
  add_bench_of(*command, "linear", "x times a weight, plus a bias", ProblemKind::linear);
  add_bench_of(*command, "mlp", "the (gated) MLP", ProblemKind::mlp);
}

}  // namespace epilogue::cli
