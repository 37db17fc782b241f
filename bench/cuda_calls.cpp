// What a call costs its caller on a GPU: the first one, new batch sizes, a synchronised call, one replayed as
// a graph, one that is profiled. Prints a table, or JSON with --json; `cuda_calls build` measures only how
// soon a generated kernel is ready, `cuda_calls walls` only synchronised calls. bench/peers/torch_calls.py is
// PyTorch's side.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "epilogue/compile.h"
#include "epilogue/device.h"
#include "epilogue/nn.h"
#include "epilogue/profiler.h"

namespace {

using namespace epilogue;
using Clock = std::chrono::steady_clock;

const Device kDevice{DeviceType::cuda, 0};
const TensorOptions kOptions{DType::bf16, kDevice};

double us_of(const std::function<void()>& call) {
  const auto start = Clock::now();
  call();
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

void synchronize_device() { synchronize(kDevice); }
void nothing() {}

// `after` each call comes what is not timed.
double median_us(const std::function<void()>& call, int calls = 300, void (*after)() = nothing) {
  std::vector<double> us;
  for (int i = 0; i < calls; ++i) {
    us.push_back(us_of(call));
    after();
  }
  std::sort(us.begin(), us.end());
  return us[us.size() / 2];
}

struct Result {
  std::string name;
  double value;
};

// (64, 1024, 4096): where the host's time counts.
struct SmallBatch {
  explicit SmallBatch(nn::Mode mode)
      : name(nn::mode_name(mode)), layer(1024, 4096, {.mode = mode, .tensor = kOptions}) {}
  void call() const {
    layer.forward(x);
    synchronize(kDevice);
  }
  std::string name;
  nn::GatedMlp layer;
  Tensor x = randn({64, 1024}, 1, kOptions);
};

void measure_walls(nn::Mode mode, const std::string& when, std::vector<Result>& results) {
  const SmallBatch batch(mode);
  const auto name = [&](const char* what) { return batch.name + " " + what + when; };
  for (int i = 0; i < 200; ++i) batch.call();
  results.push_back({name("wall us"), median_us([&] { batch.call(); })});
  results.push_back(
      {name("returns after us"), median_us([&] { batch.layer.forward(batch.x); }, 300, synchronize_device)});
  Tensor y;
  const Graph graph = Graph::capture(kDevice, [&] { y = batch.layer.forward(batch.x); });
  const auto replay = [&] {
    graph.replay();
    synchronize(kDevice);
  };
  for (int i = 0; i < 50; ++i) replay();
  results.push_back({name("graph wall us"), median_us(replay)});
  results.push_back(
      {name("graph returns after us"), median_us([&] { graph.replay(); }, 300, synchronize_device)});
}

// Windows in turns with calls that are not profiled: the host's speed changes by the second.
void measure_profiled(nn::Mode mode, std::vector<Result>& results) {
  const SmallBatch batch(mode);
  const auto call = [&] { batch.call(); };
  for (int i = 0; i < 200; ++i) call();
  std::vector<double> profiled, after;
  int64_t dropped = 0;
  for (int round = 0; round < 9; ++round) {
    const double calm = median_us(call, 100);
    Profiler profiler;
    profiler.start();
    for (int i = 0; i < 50; ++i) call();
    profiled.push_back(median_us(call, 100) / calm);
    profiler.stop();
    dropped += profiler.dropped();
    for (int i = 0; i < 50; ++i) call();
    after.push_back(median_us(call, 100) / calm);
  }
  std::sort(profiled.begin(), profiled.end());
  std::sort(after.begin(), after.end());
  results.push_back({batch.name + " profiled over not", profiled[4]});
  results.push_back({batch.name + " profiled over not, least", profiled.front()});
  results.push_back({batch.name + " profiled over not, most", profiled.back()});
  results.push_back({batch.name + " after profiling over before", after[4]});
  results.push_back({batch.name + " dropped records", static_cast<double>(dropped)});
}

// 64 batch sizes never met before, each called once.
void measure_new_sizes(nn::Mode mode, std::vector<Result>& results) {
  const std::string prefix = nn::mode_name(mode);
  const nn::GatedMlp layer(1024, 4096, {.mode = mode, .tensor = kOptions});
  const auto call = [&](const Tensor& x) {
    return us_of([&] {
      layer.forward(x);
      synchronize(kDevice);
    });
  };
  results.push_back({prefix + " first call ms", call(randn({512, 1024}, 1, kOptions)) / 1e3});
  double slowest = 0;
  uint64_t seed = 12345 + 1000 * static_cast<uint64_t>(mode);
  for (int i = 0; i < 64; ++i) {
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    const Tensor x = randn({1 + static_cast<int64_t>(seed >> 33) % 8192, 1024}, seed, kOptions);
    synchronize(kDevice);
    slowest = std::max(slowest, call(x));
  }
  results.push_back({prefix + " slowest of 64 sizes ms", slowest / 1e3});
}

// From the first call of a compiled function to its generated kernel's being ready, this process's first of
// all.
void measure_build(std::vector<Result>& results) {
  const CompiledFunction function = compile(
      [](std::span<const Tensor> in) { return std::vector{mul(gelu(in[0], GeluApproximate::tanh), in[1])}; });
  const std::vector<Tensor> in{randn({8192, 3072}, 1, kOptions), randn({8192, 3072}, 2, kOptions)};
  mul(gelu(in[0], GeluApproximate::tanh), in[1]);
  synchronize(kDevice);
  const double called = us_of([&] {
    function(in);
    synchronize(kDevice);
  });
  results.push_back({"compile: first call ms", called / 1e3});
  results.push_back({"compile: ready after ms", (called + us_of([&] { function.wait_ready(); })) / 1e3});
}

// A large product's time by the profiler beside that by events.
void compare_clocks(std::vector<Result>& results) {
  const Tensor a = randn({8192, 8192}, 1, kOptions), b = randn({8192, 8192}, 2, kOptions);
  for (int i = 0; i < 50; ++i) mm(a, b);
  synchronize(kDevice);
  constexpr int kCalls = 20;
  Event from(kDevice), to(kDevice);
  Profiler profiler;
  profiler.start();
  mm(a, b);  // a window's first launch is slow: the device is busy with it when the clock starts
  from.record();
  for (int i = 0; i < kCalls; ++i) mm(a, b);
  to.record();
  to.synchronize();
  profiler.stop();
  std::vector<double> kernels_us;
  for (const trace::Event& event : profiler.trace().events)
    if (event.kind == trace::EventKind::kernel)
      kernels_us.push_back(static_cast<double>(event.duration_ns) / 1e3);
  const auto first = static_cast<ptrdiff_t>(kernels_us.size() / (kCalls + 1));  // that one's
  results.push_back(
      {"profiler's kernel time over events'",
       std::accumulate(kernels_us.begin() + first, kernels_us.end(), 0.0) / from.elapsed_us(to)});
}

// What the host pays for an op that the device has no trouble keeping up with.
void measure_launches(std::vector<Result>& results) {
  const Tensor x = randn({64, 1024}, 1, kOptions), weight = randn({4096, 1024}, 2, kOptions);
  const auto host_us = [&](const std::function<void()>& op) {
    double best = 1e9;
    for (int round = 0; round < 20; ++round) {
      best = std::min(best, us_of([&] {
                              for (int i = 0; i < 50; ++i) op();
                            }) / 50);
      synchronize(kDevice);
    }
    return best;
  };
  results.push_back({"host us per add", host_us([&] { add(x, x); })});
  results.push_back({"host us per linear", host_us([&] { linear(x, weight); })});
}

}  // namespace

int main(int argc, char** argv) {
  const auto asked = [&](const char* what) { return argc > 1 && std::strcmp(argv[1], what) == 0; };
  const bool json = asked("--json"), build = asked("build"), walls = asked("walls"), all = !build && !walls;
  if (device_count(DeviceType::cuda) == 0) {
    std::fprintf(stderr, "cuda_calls: no CUDA device: %s\n", why_no_devices(DeviceType::cuda).c_str());
    return 2;
  }
  std::vector<Result> results;
  if (build || all) measure_build(results);
  if (all)
    for (const nn::Mode mode : nn::available_modes()) measure_new_sizes(mode, results);
  // Before the first profile of the process, and after it: what CUPTI leaves behind stays.
  if (walls || all) {
    for (const nn::Mode mode : nn::available_modes()) measure_walls(mode, "", results);
    measure_profiled(nn::Mode::fused, results);
    measure_walls(nn::Mode::fused, ", after a profile", results);
  }
  if (all) {
    for (const nn::Mode mode : {nn::Mode::eager, nn::Mode::compiled, nn::Mode::tuned})
      measure_profiled(mode, results);
    compare_clocks(results);
    measure_launches(results);
  }
  if (json) std::printf("{");
  for (size_t i = 0; i < results.size(); ++i)
    std::printf(json ? "%s\"%s\":%.4f" : "%s%-40s %10.3f\n", json && i > 0 ? "," : "",
                results[i].name.c_str(), results[i].value);
  if (json) std::printf("}\n");
  return 0;
}
