#include <algorithm>

#include <fmt/format.h>

#include "trace/diff.h"
#include "trace/kernel_name.h"
#include "trace/print.h"

namespace epilogue::trace {
namespace {

std::string launch_json(const DiffRow& row, const DiffSide& side) {
  if (row.kind != DiffKind::kernel) return "null";
  return fmt::format(R"({{"grid":[{}],"block":[{}]}})", fmt::join(side.launch.grid, ","),
                     fmt::join(side.launch.block, ","));
}

std::string only_json(const DiffRow& row) {
  const DiffSide& side = row.a ? *row.a : *row.b;
  return fmt::format(
      R"({{"kind":"{}","name":{},"short":{},"calls":{},"total_us":{},"launch":{},"calls_per_step":{:.6g},)"
      R"("step_us":{},"launched_by":{}}})",
      diff_kind_name(row.kind), json_quote(side.name), json_quote(short_name(side.name)), side.calls,
      us_json(side.total_ns), launch_json(row, side), side.calls_per_step, us_json(side.step_ns.median),
      json_quoted_list(side.ops));
}

std::string changed_json(const DiffRow& row) {
  const DiffSide &a = *row.a, &b = *row.b;
  return fmt::format(
      R"({{"kind":"{}","name":{},"names":[{},{}],"calls":[{},{}],"total_us":[{},{}],"launch":[{},{}],)"
      R"("calls_per_step":[{:.6g},{:.6g}],"step_us":[{},{}],"time_within_noise":{}}})",
      diff_kind_name(row.kind), json_quote(a.name), json_quote(a.name), json_quote(b.name), a.calls, b.calls,
      us_json(a.total_ns), us_json(b.total_ns), launch_json(row, a), launch_json(row, b), a.calls_per_step,
      b.calls_per_step, us_json(a.step_ns.median), us_json(b.step_ns.median), row.time_within_noise());
}

std::string fusion_json(const Fusion& fusion) {
  return fmt::format(R"({{"from":{},"into":{}}})", json_quoted_list(fusion.from), json_quote(fusion.into));
}

// {"CPU":[a,b],"CUDA 0":[a,b]}; null where a trace holds no events of it.
std::string memory_peaks_json(const DiffTotals& a, const DiffTotals& b) {
  const auto bytes = [](const DiffTotals& totals, const std::string& device) {
    const auto at = totals.memory_peaks.find(device);
    return at == totals.memory_peaks.end() ? "null" : std::to_string(at->second);
  };
  std::map<std::string, int64_t> devices = a.memory_peaks;
  devices.insert(b.memory_peaks.begin(), b.memory_peaks.end());
  std::vector<std::string> peaks;
  for (const auto& [device, peak] : devices)
    peaks.push_back(fmt::format("{}:[{},{}]", json_quote(device), bytes(a, device), bytes(b, device)));
  return fmt::format("{{{}}}", fmt::join(peaks, ","));
}

std::string largest_peak(const DiffTotals& totals) {
  int64_t largest = 0;
  for (const auto& [device, peak] : totals.memory_peaks) largest = std::max(largest, peak);
  return totals.memory_peaks.empty() ? "null" : std::to_string(largest);
}

}  // namespace

std::string diff_json(const Diff& diff, const std::vector<std::string>& failed) {
  const DiffTotals &a = diff.a, &b = diff.b;
  return fmt::format(
      "{{\"says\":{},\n\"files\":[{},{}],\n\"only_a\":{},\n\"only_b\":{},\n\"changed\":{},\n\"steps_us\":[{},"
      "{}],\n"
      "\"steps_within_noise\":{},\n\"device_us\":[{},{}],\n\"device_within_noise\":{},\n"
      "\"kernels_per_step\":[{},{}],\n\"memory_peak\":[{},{}],\n\"memory_peaks\":{},\n\"fusions\":{},"
      "\n\"failed\":{},\n"
      "\"damaged\":[{},{}],\n\"untied\":[{},{}],\n\"problems\":[{},{}]}}\n",
      json_quote(diff_sentence(diff)), json_quote(a.file), json_quote(b.file),
      json_array(diff.only_a, only_json), json_array(diff.only_b, only_json),
      json_array(diff.changed, changed_json), us_json(a.wall_ns.median), us_json(b.wall_ns.median),
      within_noise(a.wall_ns, b.wall_ns), us_json(a.device_ns.median), us_json(b.device_ns.median),
      within_noise(a.device_ns, b.device_ns), a.kernels.median, b.kernels.median, largest_peak(a),
      largest_peak(b), memory_peaks_json(a, b), json_array(diff.fusions, fusion_json),
      json_quoted_list(failed), a.damaged, b.damaged, a.untied, b.untied, problems_json(a.problems),
      problems_json(b.problems));
}

}  // namespace epilogue::trace
