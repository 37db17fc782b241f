#include "trace/op_table.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "trace/links.h"
#include "trace/numbers.h"
#include "trace/steps.h"

namespace epilogue::trace {
namespace {

// PyTorch's own, never shown.
constexpr std::array<std::string_view, 6> kHidden{"profiler::_record_function_enter",
                                                  "profiler::_record_function_enter_new",
                                                  "profiler::_record_function_exit",
                                                  "aten::is_leaf",
                                                  "aten::output_nr",
                                                  "aten::_version"};

bool is_host_row(EventKind kind) {
  return kind == EventKind::cpu_op || kind == EventKind::user_annotation || kind == EventKind::overhead ||
         is_runtime_call(kind);
}
bool is_device_row(EventKind kind) { return is_device_work(kind) || kind == EventKind::gpu_user_annotation; }
bool is_op(EventKind kind) { return kind == EventKind::cpu_op || kind == EventKind::user_annotation; }

struct MemoryUse {
  int64_t host = 0, device = 0;
};

class OpTable {
 public:
  OpTable(const Trace& trace, const OpTableOptions& options)
      : trace_(trace),
        options_(options),
        parent_(trace.events.size(), kNoEvent),
        children_ns_(trace.events.size()),
        device_ns_(trace.events.size()),
        hidden_(trace.strings.size()),
        row_of_(trace.strings.size(), {kNoEvent, kNoEvent, kNoEvent, kNoEvent}) {
    for (StringId id = 0; id < trace.strings.size(); ++id)
      hidden_[id] = std::find(kHidden.begin(), kHidden.end(), trace.strings[id]) != kHidden.end();
    if (!trace.memories.empty()) memory_.resize(trace.events.size());
  }

  KeyAverages build() {
    find_parents();
    attribute_device_time();
    fold_repeated_names();
    sum_up();
    for (uint32_t i = 0; i < trace_.events.size(); ++i)
      if (has_row(trace_.events[i]) && parent_[i] != kFolded) add_to_row(i);
    for (const OpStats& row : averages_.rows) {
      averages_.has_device |= row.self_device_us > 0;
      averages_.has_flops |= row.flops > 0;
    }
    averages_.has_shapes = options_.group_by_shape;
    averages_.has_memory = !trace_.memories.empty() || recorded_memory();
    return std::move(averages_);
  }

 private:
  static constexpr uint32_t kFolded = UINT32_MAX - 1;

  bool has_row(const Event& event) const {
    return (is_host_row(event.kind) || is_device_row(event.kind)) && !hidden_[event.name];
  }

  // Also gives memory events and CPU kernels to the event around them.
  void find_parents() {
    std::vector<std::vector<uint32_t>> open(trace_.tracks.size() *
                                            2);  // per thread; odd: unlinked runtime calls
    for (uint32_t i = 0; i < trace_.events.size(); ++i) {
      const Event& event = trace_.events[i];
      if (event.kind == EventKind::memory || event.kind == EventKind::cpu_kernel) {
        give_to_innermost(i, open[event.track * 2]);
        continue;
      }
      if (!is_host_row(event.kind) || hidden_[event.name]) continue;
      const bool unlinked = is_runtime_call(event.kind) && event.external_id == 0;
      auto& around = open[event.track * 2 + (unlinked ? 1 : 0)];
      while (!around.empty() && !holds(trace_.events[around.back()], event)) around.pop_back();
      if (!around.empty()) parent_[i] = around.back();
      around.push_back(i);
    }
  }

  static bool holds(const Event& outer, const Event& inner) {
    return inner.start_ns < outer.end_ns() && inner.end_ns() <= outer.end_ns();
  }

  void give_to_innermost(uint32_t i, const std::vector<uint32_t>& around) {
    const Event& event = trace_.events[i];
    const auto inner = std::find_if(around.rbegin(), around.rend(), [&](uint32_t outer) {
      return trace_.events[outer].end_ns() >= event.start_ns;
    });
    if (event.kind == EventKind::cpu_kernel) {
      if (inner != around.rend() && event.detail != kNoDetail) kernels_of_[*inner].push_back(event.detail);
      return;
    }
    const Memory& memory = trace_.memories[event.detail];
    if (inner != around.rend())
      add(memory_[*inner], memory);
    else
      add_memory_row(memory);
  }

  static void add(MemoryUse& use, const Memory& memory) {
    (memory.device_type == 0 ? use.host : use.device) += memory.bytes;
  }

  void add_memory_row(const Memory& memory) {
    if (memory_row_ == kNoEvent) {
      memory_row_ = static_cast<uint32_t>(averages_.rows.size());
      averages_.rows.push_back({.name = "[memory]", .shapes = options_.group_by_shape ? "[]" : ""});
    }
    MemoryUse use;
    add(use, memory);
    OpStats& row = averages_.rows[memory_row_];
    ++row.calls;
    row.cpu_memory += use.host;
    row.self_cpu_memory += use.host;
    row.device_memory += use.device;
    row.self_device_memory += use.device;
  }

  void attribute_device_time() {
    std::unordered_map<uint64_t, int64_t> by_external_id;
    std::vector<uint32_t> launches;  // asked for only where a kernel does not name its op itself
    for (size_t i = 0; i < trace_.events.size(); ++i) {
      const Event& event = trace_.events[i];
      if (!is_device_work(event.kind)) continue;
      uint64_t id = event.external_id;
      if (id == 0) {
        if (launches.empty()) launches = launching_calls(trace_);
        if (launches[i] != kNoEvent) id = trace_.events[launches[i]].external_id;
      }
      if (id != 0) by_external_id[id] += event.duration_ns;
    }
    if (by_external_id.empty()) return;
    for (size_t i = 0; i < device_ns_.size(); ++i) {
      const Event& event = trace_.events[i];
      if (!is_op(event.kind) || event.external_id == 0) continue;
      const auto found = by_external_id.find(event.external_id);
      if (found != by_external_id.end()) device_ns_[i] = found->second;
    }
  }

  void fold_repeated_names() {
    std::vector<uint32_t> children(trace_.events.size());
    for (const uint32_t parent : parent_)
      if (parent != kNoEvent) ++children[parent];
    std::vector<std::pair<uint32_t, uint32_t>> folded;  // event, what it was folded into; by event
    for (uint32_t i = 0; i < parent_.size(); ++i) {
      uint32_t& parent = parent_[i];
      if (parent == kNoEvent) continue;
      if (parent_[parent] == kFolded)
        parent = std::lower_bound(folded.begin(), folded.end(), std::pair{parent, uint32_t{0}})->second;
      if (children[parent] != 1 || trace_.events[parent].name != trace_.events[i].name) continue;
      folded.emplace_back(i, parent);
      children[parent] = children[i];
      device_ns_[parent] = device_ns_[i];
      if (!memory_.empty()) {
        memory_[parent].host += memory_[i].host;
        memory_[parent].device += memory_[i].device;
      }
      if (const auto inner = kernels_of_.extract(i)) {
        std::vector<uint32_t>& kernels = kernels_of_[parent];
        kernels.insert(kernels.end(), inner.mapped().begin(), inner.mapped().end());
      }
      parent = kFolded;
    }
  }

  // device_ns_ and memory_ become totals; what is an event's own is the total less its children's.
  void sum_up() {
    own_device_ns_ = device_ns_;
    own_memory_ = memory_;
    for (size_t i = trace_.events.size(); i-- > 0;) {
      const uint32_t parent = parent_[i];
      if (parent == kNoEvent || parent == kFolded) continue;
      children_ns_[parent] += trace_.events[i].duration_ns;
      device_ns_[parent] += device_ns_[i];
      if (memory_.empty()) continue;
      memory_[parent].host += memory_[i].host;
      memory_[parent].device += memory_[i].device;
    }
  }

  void add_to_row(uint32_t i) {
    const Event& event = trace_.events[i];
    OpStats& row = averages_.rows[row_of(event)];
    ++row.calls;
    const double us = static_cast<double>(event.duration_ns) / 1e3;
    if (row.is_kernel) {
      row.self_device_us += us;
      row.device_total_us += us;
      return;
    }
    row.cpu_total_us += us;
    row.self_cpu_us += static_cast<double>(event.duration_ns - children_ns_[i]) / 1e3;
    row.device_total_us += static_cast<double>(device_ns_[i]) / 1e3;
    row.self_device_us += static_cast<double>(own_device_ns_[i]) / 1e3;
    if (!memory_.empty()) {
      row.cpu_memory += memory_[i].host;
      row.self_cpu_memory += own_memory_[i].host;
      row.device_memory += memory_[i].device;
      row.self_device_memory += own_memory_[i].device;
    }
    // Of a device's trace that was cut short some of the time that rates need is missing.
    if (options_.with_flops && (!trace_.damaged || trace_.devices.empty())) add_work(i, row);
  }

  void add_work(uint32_t i, OpStats& row) {
    const Event& event = trace_.events[i];
    int64_t flops = 0;
    if (event.kind == EventKind::cpu_op && event.detail != kNoDetail) {
      const auto [at, added] = flops_.try_emplace({event.name, event.detail});
      if (added)
        at->second = op_flops(trace_.name(event), trace_.strings[trace_.op_inputs[event.detail].dims]);
      flops = at->second;
    }
    add_saturated(row.flops, flops);
    const auto kernels = kernels_of_.find(i);
    if (kernels == kernels_of_.end()) return;
    for (const uint32_t work : kernels->second) {
      if (flops == 0) add_saturated(row.flops, trace_.work[work].flops);
      add_saturated(row.bytes, trace_.work[work].bytes);
    }
  }

  uint32_t row_of(const Event& event) {
    const bool device = is_device_row(event.kind);
    const bool annotation =
        event.kind == EventKind::user_annotation || event.kind == EventKind::gpu_user_annotation;
    const size_t kind = (device ? 2 : 0) + (annotation ? 1 : 0);
    if (!options_.group_by_shape && row_of_[event.name][kind] != kNoEvent) return row_of_[event.name][kind];
    std::string name(trace_.name(event));
    if (name.starts_with(kStepPrefix)) name = "ProfilerStep*";
    std::string shapes;
    if (options_.group_by_shape) {
      if (event.kind == EventKind::cpu_op && event.detail != kNoDetail)
        shapes = trace_.strings[trace_.op_inputs[event.detail].dims];
      if (shapes.empty()) shapes = "[]";
    }
    auto& rows = averages_.rows;
    const auto [at, added] = rows_.try_emplace({name, shapes, kind}, static_cast<uint32_t>(rows.size()));
    if (added)
      rows.push_back({.name = name, .shapes = shapes, .is_kernel = device, .is_annotation = annotation});
    return row_of_[event.name][kind] = at->second;
  }

  bool recorded_memory() const {
    return std::find(trace_.metadata.begin(), trace_.metadata.end(),
                     std::pair<std::string, std::string>{"profile_memory", "1"}) != trace_.metadata.end();
  }

  const Trace& trace_;
  const OpTableOptions& options_;
  // By event:
  std::vector<uint32_t> parent_;
  std::vector<int64_t> children_ns_, device_ns_, own_device_ns_;
  std::vector<MemoryUse> memory_, own_memory_;  // empty when the trace has no memory events
  std::unordered_map<uint32_t, std::vector<uint32_t>> kernels_of_;
  // By name:
  std::vector<uint8_t> hidden_;
  std::vector<std::array<uint32_t, 4>> row_of_;

  std::map<std::tuple<std::string, std::string, size_t>, uint32_t> rows_;
  std::map<std::pair<StringId, uint32_t>, int64_t> flops_;  // by name and inputs
  uint32_t memory_row_ = kNoEvent;
  KeyAverages averages_;
};

}  // namespace

KeyAverages key_averages(const Trace& trace, const OpTableOptions& options) {
  return OpTable(trace, options).build();
}

}  // namespace epilogue::trace
