#include "cli/measure_device.h"

#include <algorithm>
#include <chrono>
#include <map>

#include "epilogue/device.h"

namespace epilogue::cli {
namespace {

using Clock = std::chrono::steady_clock;

double us_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

// As many layers as it takes for none to find its weights in the cache, with an input each.
std::vector<Workload> rotating(const Problem& problem, nn::Mode mode) {
  const auto element = static_cast<double>(dtype_size(problem.dtype));
  const double set = element * (problem.weights() + static_cast<double>(problem.rows() * problem.dim));
  const double cache = static_cast<double>(device_info(problem.device).cache_bytes);
  const auto sets = static_cast<size_t>(std::clamp(2 * cache / set + 1, 2.0, 64.0));
  std::vector<Workload> workloads;
  for (size_t i = 0; i < sets; ++i) workloads.push_back(make_workload(problem, mode));
  return workloads;
}

// Times `batch`, which makes `calls` calls, between two events.
template <class Batch>
Timing between_events(Device device, double min_seconds, int64_t calls, const Batch& batch) {
  Event from(device), to(device);
  std::vector<double> us;
  const auto begin = Clock::now();
  do {
    from.record();
    batch();
    to.record();
    to.synchronize();
    us.push_back(from.elapsed_us(to) / static_cast<double>(calls));
  } while (us.size() < 7 || us_since(begin) < min_seconds * 1e6);
  return distribution(std::move(us));
}

}  // namespace

DeviceTiming measure_on_device(const Problem& problem, nn::Mode mode, double min_seconds) {
  const std::vector<Workload> workloads = rotating(problem, mode);
  const Device device = problem.device;
  DeviceTiming timing{.sets = static_cast<int>(workloads.size())};
  const auto each = [&] {
    for (const Workload& workload : workloads) workload.forward(workload.x);
  };
  const auto warm_until = Clock::now();
  do each();
  while (synchronize(device),
         us_since(warm_until) < std::max(min_seconds, 0.5) * 1e6);  // tuning ends meanwhile
  const int64_t calls = static_cast<int64_t>(workloads.size());
  {
    const Graph graph = Graph::capture(device, each);
    graph.replay();
    timing.graph = between_events(device, min_seconds, calls, [&] { graph.replay(); });
  }
  timing.stream = between_events(device, min_seconds, calls, each);
  std::vector<double> wall;
  const auto begin = Clock::now();
  for (size_t i = 0; wall.size() < 50 || us_since(begin) < min_seconds * 1e6; ++i) {
    const Workload& workload = workloads[i % workloads.size()];
    const auto start = Clock::now();
    workload.forward(workload.x);
    synchronize(device);
    wall.push_back(us_since(start));
  }
  timing.wall = distribution(std::move(wall));
  return timing;
}

double device_gflops(Device device, DType dtype) {
  static std::map<DType, double> measured;
  if (const auto found = measured.find(dtype); found != measured.end()) return found->second;
  const int64_t n = dtype == DType::f32 ? 4096 : 8192;
  const TensorOptions options{dtype, device};
  const Tensor a = randn({n, n}, 1, options), b = randn({n, n}, 2, options);
  for (int i = 0; i < 20; ++i) mm(a, b);
  const Timing timing = between_events(device, 0.3, 1, [&] { mm(a, b); });
  const double flops = 2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
  return measured[dtype] = flops / timing.median_us / 1e3;
}

double device_copy_gbs(Device device) {
  static double measured = 0;
  if (measured > 0) return measured;
  constexpr int64_t kBytes = int64_t{1} << 31;
  const TensorOptions options{DType::i64, device};
  const Tensor from = full({kBytes / 8}, 1, options);
  Tensor to = empty({kBytes / 8}, options);
  const Timing timing = between_events(device, 0.1, 1, [&] { to.copy_(from); });
  return measured = 2.0 * static_cast<double>(kBytes) / timing.median_us / 1e3;
}

}  // namespace epilogue::cli
