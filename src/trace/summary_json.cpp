#include <fmt/format.h>

#include "trace/print.h"
#include "trace/summary.h"

namespace epilogue::trace {
namespace {

std::string step_json(const Step& step) {
  return fmt::format(
      R"({{"name":{},"wall_us":{},"device_busy_us":{},"device_idle_us":{},"kernels":{},"regime":"{}",)"
      R"("host_ops_us":{},"sync_us":{},"device":{},"devices":{}}})",
      json_quote(step.name), us_json(step.wall_ns), us_json(step.device_busy_ns),
      us_json(step.device_idle_ns), step.kernels, regime_name(step.regime), us_json(step.host_ops_ns),
      us_json(step.sync_ns), step.devices > 0 ? std::to_string(step.device) : "null", step.devices);
}

std::string kernel_json(const KernelStats& kernel) {
  return fmt::format(
      R"({{"name":{},"short":{},"calls":{},"total_us":{},"avg_us":{:.3f},"min_us":{},"max_us":{},"grid":[{}],)"
      R"("block":[{}],"registers":{},"shared_bytes":{},"flops":{},"bytes":{},"threads":{}}})",
      json_quote(kernel.name), json_quote(kernel.brief), kernel.calls, us_json(kernel.total_ns),
      static_cast<double>(kernel.total_ns) / 1e3 / static_cast<double>(kernel.calls), us_json(kernel.min_ns),
      us_json(kernel.max_ns), fmt::join(kernel.launch.grid, ","), fmt::join(kernel.launch.block, ","),
      kernel.launch.registers_per_thread, kernel.launch.shared_bytes, kernel.work.flops, kernel.work.bytes,
      kernel.work.threads);
}

std::string copy_json(const CopyStats& copy) {
  return fmt::format(R"({{"name":{},"calls":{},"total_us":{},"bytes":{}}})", json_quote(copy.name),
                     copy.calls, us_json(copy.total_ns), copy.bytes);
}

std::string memory_json(const DeviceMemory& memory) {
  return fmt::format(
      R"({{"device_type":{},"device":{},"allocations":{},"frees":{},"peak_allocated":{},"peak_reserved":{},)"
      R"("unused_reserve":{:.4f}}})",
      memory.device_type, memory.device_index, memory.allocations, memory.frees, memory.peak_allocated,
      memory.peak_reserved, memory.unused_reserve());
}

// The device that held most, and each one.
std::string memory_json(const std::vector<DeviceMemory>& devices) {
  int64_t allocated = 0, reserved = 0;
  for (const DeviceMemory& memory : devices) {
    allocated = std::max(allocated, memory.peak_allocated);
    reserved = std::max(reserved, memory.peak_reserved);
  }
  return fmt::format(R"({{"peak_allocated":{},"peak_reserved":{},"devices":{}}})", allocated, reserved,
                     json_array(devices, [](const DeviceMemory& memory) { return memory_json(memory); }));
}

std::string launch_json(const LaunchStats& launch) {
  return fmt::format(
      R"({{"launches":{},"median_latency_us":{},"max_latency_us":{},"mean_queue":{:.3f},"max_queue":{}}})",
      launch.launches, us_json(launch.median_latency_ns), us_json(launch.max_latency_ns), launch.mean_queue,
      launch.max_queue);
}

// null where the trace marks no steps.
std::string medians_json(const std::vector<Step>& steps) {
  if (steps.empty()) return "null";
  return fmt::format(R"({{"wall_us":{},"device_busy_us":{},"device_idle_us":{},"kernels":{}}})",
                     us_json(median_of(steps, &Step::wall_ns)),
                     us_json(median_of(steps, &Step::device_busy_ns)),
                     us_json(median_of(steps, &Step::device_idle_ns)), median_of(steps, &Step::kernels));
}

std::string one_json(const Summary& summary) {
  return fmt::format(
      "{{\"file\":{},\n\"events\":{},\n\"devices\":{},\n\"damaged\":{},\n\"regime\":{},\n\"median_step\":{},"
      "\n\"steps\":{},\n\"ops\":{},\n\"kernels\":{},\n\"copies\":{},"
      "\n\"memory\":{},"
      "\n\"launch\":{},\n"
      "\"problems\":{}}}",
      json_quote(summary.file), summary.events, json_quoted_list(summary.devices), summary.damaged,
      summary.steps.empty() ? "null" : json_quote(regime_name(regime_of(summary.steps))),
      medians_json(summary.steps), json_array(summary.steps, step_json),
      json_array(summary.ops.rows, op_json), json_array(summary.kernels, kernel_json),
      json_array(summary.copies, copy_json), memory_json(summary.memory), launch_json(summary.launch),
      problems_json(summary.problems));
}

}  // namespace

std::string op_json(const OpStats& op) {
  return fmt::format(
      R"({{"name":{},"shapes":{},"calls":{},"self_cpu_us":{:.3f},"cpu_total_us":{:.3f},"self_device_us":{:.3f},)"
      R"("device_total_us":{:.3f},"flops":{},"bytes":{},"kernel":{},"annotation":{}}})",
      json_quote(op.name), json_quote(op.shapes), op.calls, op.self_cpu_us, op.cpu_total_us,
      op.self_device_us, op.device_total_us, op.flops, op.bytes, op.is_kernel, op.is_annotation);
}

std::string summary_json(const std::vector<Summary>& summaries) {
  if (summaries.size() == 1) return one_json(summaries.front()) + "\n";
  return fmt::format("{{\"files\":{}}}\n", json_array(summaries, one_json));
}

}  // namespace epilogue::trace
