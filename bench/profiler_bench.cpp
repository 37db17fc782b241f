// What recording costs: per Range, per op with shapes, per event collected. With --check as its first
// argument and repetitions (--benchmark_repetitions=9) it exits with 1 when a Range's median is past its
// limit.
#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <benchmark/benchmark.h>

#include "profile/event.h"
#include "profile/window.h"

namespace epilogue::profile {
namespace {

constexpr int kEvents = 10000;  // per window

// Runs `record` kEvents times in a window and times that alone.
template <class Record>
void record_in_windows(benchmark::State& state, const ProfilerOptions& options, Record record) {
  while (state.KeepRunningBatch(kEvents)) {
    state.PauseTiming();
    Window window(options);
    state.ResumeTiming();
    for (int i = 0; i < kEvents; ++i) record();
  }
}

void range_off(benchmark::State& state) {
  for (auto _ : state) Range range("range");
}
BENCHMARK(range_off);

void range_on(benchmark::State& state) {
  record_in_windows(state, {}, [] { Range range("range"); });
}
BENCHMARK(range_on);

void op_scope_with_shapes_on(benchmark::State& state) {
  const std::array inputs = {empty({1, 32}), empty({64, 32}), empty({64})};
  record_in_windows(state, {.record_shapes = true}, [&] { OpScope op("ep::linear", inputs); });
}
BENCHMARK(op_scope_with_shapes_on);

void collect_window(benchmark::State& state) {
  while (state.KeepRunningBatch(kEvents)) {
    state.PauseTiming();
    std::optional<Window> window(std::in_place, ProfilerOptions{});
    for (int i = 0; i < kEvents; ++i) Range range("range");
    state.ResumeTiming();
    benchmark::DoNotOptimize(window->finish());
  }
}
BENCHMARK(collect_window);

// Keeps the medians, which a busy machine moves less than the means. CPU time, for the same reason.
class MedianReporter : public benchmark::ConsoleReporter {
 public:
  void ReportRuns(const std::vector<Run>& runs) override {
    ConsoleReporter::ReportRuns(runs);
    for (const Run& run : runs)
      if (run.aggregate_name == "median") medians_[run.run_name.function_name] = run.GetAdjustedCPUTime();
  }

  bool within(const std::string& name, double limit_ns) const {
    const auto median = medians_.find(name);
    return median != medians_.end() && median->second <= limit_ns;
  }

 private:
  std::map<std::string, double> medians_;
};

}  // namespace
}  // namespace epilogue::profile

int main(int argc, char** argv) {
  const bool check = argc > 1 && std::string_view(argv[1]) == "--check";
  if (check) {
    argv[1] = argv[0];
    --argc;
    ++argv;
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  epilogue::profile::MedianReporter reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter);
  return !check || (reporter.within("range_off", 3) && reporter.within("range_on", 100)) ? 0 : 1;
}
