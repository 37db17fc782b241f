#include "trace/explain.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include <simdjson.h>

namespace epilogue::trace {
namespace {

bool is_explained(EventKind kind) {
  return kind == EventKind::kernel || kind == EventKind::cpu_kernel || kind == EventKind::gpu_memcpy ||
         kind == EventKind::gpu_memset;
}

// Products of two sizes fit int64_t.
bool is_size(int64_t size) { return size >= 0 && size < int64_t{1} << 31; }

// The two matrices of "[[64], [1024, 32], [32, 64], [], []]": the last two inputs with two dimensions.
GemmCall gemm_of(std::string_view dims) {
  simdjson::dom::parser parser;
  simdjson::dom::array inputs;
  if (parser.parse(simdjson::padded_string(dims)).get_array().get(inputs) != simdjson::SUCCESS) return {};
  std::vector<std::pair<int64_t, int64_t>> matrices;
  for (simdjson::dom::element input : inputs) {
    simdjson::dom::array sizes;
    int64_t rows = 0, columns = 0;
    if (input.get_array().get(sizes) == simdjson::SUCCESS && sizes.size() == 2 &&
        sizes.at(0).get(rows) == simdjson::SUCCESS && sizes.at(1).get(columns) == simdjson::SUCCESS &&
        is_size(rows) && is_size(columns))
      matrices.emplace_back(rows, columns);
  }
  if (matrices.size() < 2) return {};
  const auto [m, k] = matrices[matrices.size() - 2];
  const auto [inner, n] = matrices.back();
  if (inner != k) return {};
  return {.m = m, .n = n, .k = k};
}

int32_t multiprocessors_of(const Trace& trace, const Event& event) {
  for (const DeviceProperties& device : trace.devices)
    if (event.track < trace.tracks.size() && device.id == trace.tracks[event.track].process)
      return device.multiprocessors;
  return 0;
}

std::unordered_map<uint64_t, const Event*> ops_by_external_id(const Trace& trace) {
  std::unordered_map<uint64_t, const Event*> ops;
  for (const Event& event : trace.events)
    if (event.kind == EventKind::cpu_op && event.external_id != 0) ops.try_emplace(event.external_id, &event);
  return ops;
}

std::vector<KernelUse> uses_of(const Trace& trace) {
  const auto ops = ops_by_external_id(trace);
  std::unordered_map<StringId, size_t> index;
  std::vector<KernelUse> uses;
  for (const Event& event : trace.events) {
    if (!is_explained(event.kind)) continue;
    const auto [at, is_new] = index.try_emplace(event.name, uses.size());
    if (is_new) uses.emplace_back().kernel = explain_kernel(trace.name(event));
    KernelUse& use = uses[at->second];
    ++use.calls;
    use.total_us += static_cast<double>(event.duration_ns) / 1000;
    const auto found = ops.find(event.external_id);
    if (found == ops.end()) continue;
    const Event& op = *found->second;
    const std::string name(trace.name(op));
    if (std::ranges::find(use.ops, name) == use.ops.end()) use.ops.push_back(name);
    if (use.call.m == 0 && op.detail < trace.op_inputs.size()) {
      use.call = gemm_of(trace.strings[trace.op_inputs[op.detail].dims]);
      use.call.multiprocessors = multiprocessors_of(trace, event);
    }
  }
  std::ranges::stable_sort(uses, std::greater<>(), &KernelUse::total_us);
  return uses;
}

}  // namespace

TraceExplanation explain_trace(const Trace& trace) {
  TraceExplanation explanation{.kernels = uses_of(trace), .comparisons = {}};
  std::map<std::string, size_t> first_gemm;  // by op
  for (size_t i = 0; i < explanation.kernels.size(); ++i) {
    const KernelUse& use = explanation.kernels[i];
    if (use.kernel.value(NameField::op) != "GEMM") continue;
    for (const std::string& op : use.ops) {
      const auto [at, is_first] = first_gemm.try_emplace(op, i);
      if (is_first) continue;
      const KernelUse& other = explanation.kernels[at->second];
      explanation.comparisons.push_back(
          {op, at->second, i, compare_kernels(other.kernel, use.kernel, other.call, use.call)});
    }
  }
  return explanation;
}

}  // namespace epilogue::trace
