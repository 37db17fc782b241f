#include "trace/summary.h"

#include <algorithm>
#include <future>
#include <map>
#include <set>
#include <tuple>

#include "trace/kernel_name.h"
#include "trace/launch_index.h"
#include "trace/links.h"
#include "trace/names.h"
#include "trace/numbers.h"
#include "trace/op_table.h"
#include "trace/spread.h"

namespace epilogue::trace {
namespace {

// For each launch the first that differs by its place in a graph alone.
std::vector<uint32_t> launches_without_nodes(const Trace& trace) {
  std::vector<Launch> different;
  std::vector<uint32_t> first, same_as(trace.launches.size());
  LaunchIndex index;
  for (uint32_t i = 0; i < trace.launches.size(); ++i) {
    Launch launch = trace.launches[i];
    launch.graph_node = 0;
    const uint32_t at = index.index_of(launch, different);
    if (at == first.size()) first.push_back(i);
    same_as[i] = first[at];
  }
  return same_as;
}

std::vector<KernelStats> kernel_stats(const Trace& trace, const std::vector<uint32_t>& launches,
                                      const std::vector<Step>& steps) {
  StepSearch search(steps);
  const std::vector<uint32_t> same_as = launches_without_nodes(trace);
  // A CPU kernel's work varies: by name alone.
  std::map<std::tuple<StringId, uint32_t, bool>, KernelStats> by_launch;
  for (size_t i = 0; i < trace.events.size(); ++i) {
    const Event& event = trace.events[i];
    const bool cpu = event.kind == EventKind::cpu_kernel;
    if (event.kind != EventKind::kernel && !cpu) continue;
    const bool has_launch = !cpu && event.detail != kNoDetail;
    KernelStats& stats = by_launch[{event.name, has_launch ? same_as[event.detail] : kNoDetail, cpu}];
    stats.cpu = cpu;
    ++stats.calls;
    stats.total_ns += event.duration_ns;
    stats.min_ns = std::min(stats.min_ns, event.duration_ns);
    stats.max_ns = std::max(stats.max_ns, event.duration_ns);
    if (const Event* from = cpu                       ? &event
                            : launches[i] == kNoEvent ? nullptr
                                                      : &trace.events[launches[i]];
        from && search.at(from->start_ns) != kNoEvent)
      stats.in_steps_ns += event.duration_ns;
    if (!cpu || event.detail == kNoDetail) continue;
    const Work& work = trace.work[event.detail];
    add_saturated(stats.work.flops, work.flops);
    add_saturated(stats.work.bytes, work.bytes);
    stats.work.threads = std::max(stats.work.threads, work.threads);
  }
  std::vector<KernelStats> kernels;
  for (auto& [key, stats] : by_launch) {
    const auto& [name, launch, cpu] = key;
    stats.name = trace.strings[name];
    stats.brief = short_name(stats.name);
    if (launch != kNoDetail) stats.launch = trace.launches[launch];
    kernels.push_back(std::move(stats));
  }
  std::stable_sort(kernels.begin(), kernels.end(),
                   [](const KernelStats& a, const KernelStats& b) { return a.total_ns > b.total_ns; });
  return kernels;
}

std::vector<CopyStats> copy_stats(const Trace& trace) {
  std::map<std::string_view, CopyStats> by_name;
  for (const Event& event : trace.events) {
    if (event.kind != EventKind::gpu_memcpy && event.kind != EventKind::gpu_memset) continue;
    CopyStats& stats = by_name[trace.name(event)];
    ++stats.calls;
    stats.total_ns += event.duration_ns;
    if (event.detail != kNoDetail) stats.bytes += trace.copies[event.detail].bytes;
  }
  std::vector<CopyStats> copies;
  for (auto& [name, stats] : by_name) {
    stats.name = name;
    copies.push_back(stats);
  }
  return copies;
}

// What is known of a device's memory where no event tells how much is allocated in all: at least what was
// freed must have been allocated before.
struct RunningSum {
  int64_t now = 0, lowest = 0, highest = 0;
  void add(int64_t bytes) {
    add_saturated(now, bytes);
    lowest = std::min(lowest, now);
    highest = std::max(highest, now);
  }
  int64_t peak() const {
    int64_t peak = highest;
    add_saturated(peak, -std::max(lowest, -INT64_MAX));
    return peak;
  }
};

std::vector<DeviceMemory> memory_stats(const Trace& trace) {
  std::map<std::pair<int32_t, int32_t>, DeviceMemory> by_device;
  std::map<std::pair<int32_t, int32_t>, RunningSum> sums;
  for (const Memory& memory : trace.memories) {
    DeviceMemory& stats = by_device[{memory.device_type, memory.device_index}];
    stats.device_type = memory.device_type;
    stats.device_index = memory.device_index;
    ++(memory.bytes < 0 ? stats.frees : stats.allocations);
    sums[{memory.device_type, memory.device_index}].add(memory.bytes);
    if (memory.total_allocated > stats.peak_allocated) {
      stats.peak_allocated = memory.total_allocated;
      stats.reserved_at_peak = memory.total_reserved;
    }
    stats.peak_reserved = std::max(stats.peak_reserved, memory.total_reserved);
  }
  std::vector<DeviceMemory> devices;
  for (auto& [key, stats] : by_device) {
    if (stats.peak_allocated == 0) stats.peak_allocated = sums[key].peak();
    devices.push_back(stats);
  }
  return devices;
}

std::vector<std::string> device_names(const Trace& trace) {
  const std::set<int64_t> working = working_devices(trace);
  std::vector<std::string> names;
  for (const DeviceProperties& device : trace.devices)
    if (!device.name.empty() && (working.empty() || working.contains(device.id)))
      names.push_back(device.name);
  return names;
}

LaunchStats launch_stats(const Trace& trace, const std::vector<uint32_t>& launches) {
  std::vector<int64_t> called, started, latencies;
  std::vector<uint8_t> seen(trace.events.size());  // by call: a graph's launches many kernels
  for (size_t i = 0; i < launches.size(); ++i) {
    if (launches[i] == kNoEvent || trace.events[i].kind != EventKind::kernel) continue;
    if (seen[launches[i]]) continue;
    seen[launches[i]] = 1;
    called.push_back(trace.events[launches[i]].start_ns);
    started.push_back(trace.events[i].start_ns);
    latencies.push_back(started.back() - called.back());
  }
  LaunchStats stats{.launches = static_cast<int64_t>(called.size())};
  if (called.empty()) return stats;
  stats.max_latency_ns = *std::max_element(latencies.begin(), latencies.end());
  stats.median_latency_ns = median_of(std::move(latencies));
  std::sort(called.begin(), called.end());  // `started` is in order: so are the events
  size_t begun = 0;
  int64_t sum = 0;
  for (size_t launched = 0; launched < called.size(); ++launched) {
    while (begun < started.size() && started[begun] <= called[launched]) ++begun;
    const auto queue = std::max<int64_t>(0, static_cast<int64_t>(launched) - static_cast<int64_t>(begun));
    stats.max_queue = std::max(stats.max_queue, queue);
    sum += queue;
  }
  stats.mean_queue = static_cast<double>(sum) / static_cast<double>(called.size());
  return stats;
}

}  // namespace

std::map<std::string, int64_t> memory_peaks(const Summary& summary) {
  std::map<std::string, int64_t> peaks;
  for (const DeviceMemory& memory : summary.memory)
    peaks[memory_device_name(memory.device_type, memory.device_index)] = memory.peak_allocated;
  return peaks;
}

double DeviceMemory::unused_reserve() const {
  if (reserved_at_peak <= 0) return 0;
  return 1 - static_cast<double>(peak_allocated) / static_cast<double>(reserved_at_peak);
}

Summary summarise(const Trace& trace) {
  auto ops = std::async(std::launch::async, [&] { return key_averages(trace, {.with_flops = true}); });
  const std::vector<uint32_t> launches = launching_calls(trace);
  Summary summary{.file = trace.source,
                  .events = static_cast<int64_t>(trace.events.size()),
                  .steps = find_steps(trace, launches),
                  .copies = copy_stats(trace),
                  .memory = memory_stats(trace),
                  .launch = launch_stats(trace, launches),
                  .problems = trace.problems,
                  .damaged = trace.damaged};
  summary.devices = device_names(trace);
  summary.kernels = kernel_stats(trace, launches, summary.steps);
  summary.ops = ops.get();
  return summary;
}

}  // namespace epilogue::trace
