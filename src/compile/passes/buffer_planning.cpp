#include <algorithm>

#include "base/check.h"
#include "base/format.h"
#include "compile/passes/edit.h"

namespace epilogue::compiler {
namespace {

using graph::Graph;
using graph::Node;
using graph::Value;
using graph::ValueId;

constexpr int64_t kAlignment = 256;

struct Buffer {
  ValueId value = graph::kNoValue;
  size_t first = 0, last = 0;  // the nodes that make it and read it last
  int64_t bytes = 0, offset = 0;
};

int64_t sum_of_bytes(int64_t a, int64_t b) {
  int64_t sum = 0;
  EP_CHECK(!__builtin_add_overflow(a, b, &sum), "compile: the plan takes more bytes than 64 bits count");
  return sum;
}

int64_t bytes_of(const Value& value) {
  const auto bytes = static_cast<int64_t>(bytes_for(value.sizes(), value.dtype));
  return sum_of_bytes(bytes, kAlignment - 1) / kAlignment * kAlignment;
}

// Pointwise nodes read each element before they write it, so the result may take the place of an operand that
// is read for the last time, when the two lie in memory alike.
ValueId dying_operand(const Graph& graph, const Node& node, const std::vector<size_t>& last_read, size_t at) {
  if (!is_pointwise(node) && node.op != Op::fused) return graph::kNoValue;
  const Value& out = graph.value(node.outputs[0]);
  for (const ValueId input : node.inputs) {
    const Value& in = graph.value(input);
    const Value& base = graph.value(in.base);
    const bool alike = in.sizes() == out.sizes() && in.dtype == out.dtype && in.device == out.device &&
                       is_contiguous(in.layout.sizes, in.layout.strides) &&
                       numel_of(base.sizes()) == numel_of(in.sizes());
    if (!alike || base.kind != graph::ValueKind::result || last_read[static_cast<size_t>(in.base)] != at)
      continue;
    // Another view of it, in another order, would be read after it was written.
    const bool twice = std::ranges::any_of(node.inputs, [&](ValueId other) {
      return graph.value(other).base == in.base && !graph::same_layout(graph.value(other).layout, in.layout);
    });
    if (!twice) return in.base;
  }
  return graph::kNoValue;
}

// The lowest place that is free for as long as the buffer lives.
int64_t place(const std::vector<Buffer>& placed, const Buffer& buffer) {
  std::vector<std::pair<int64_t, int64_t>> taken;
  for (const Buffer& other : placed)
    if (other.first <= buffer.last && buffer.first <= other.last)
      taken.emplace_back(other.offset, other.offset + other.bytes);
  std::ranges::sort(taken);
  int64_t offset = 0;
  for (const auto& [begin, end] : taken) {
    if (offset + buffer.bytes <= begin) break;
    offset = std::max(offset, end);
  }
  return offset;
}

// Ops that make their result themselves, which then has no place in the workspace.
bool makes_own_result(const Graph& graph, const Node& node) {
  return is_gated(node) || moves_to_device(graph, node);
}

}  // namespace

void buffer_planning(Graph& graph, PassContext& context) {
  const auto index = [](ValueId id) { return static_cast<size_t>(id); };
  std::vector<size_t> last_read(graph.values.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    for (const ValueId input : graph.nodes[i].inputs) last_read[index(graph.value(input).base)] = i;
  std::vector<bool> leaves(graph.values.size());
  for (const ValueId output : graph.outputs) leaves[index(graph.value(output).base)] = true;

  BufferPlan& plan = context.buffers;
  plan.offsets.assign(graph.values.size(), -1);
  if (!graph.nodes.empty()) plan.device = graph.value(graph.nodes.back().outputs[0]).device;
  std::vector<Buffer> placed, apart;
  int in_place = 0;
  int64_t outputs = 0, most_apart = 0;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (is_view(node)) continue;
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      const ValueId id = node.outputs[o];
      const int64_t bytes = bytes_of(graph.value(id));
      plan.unplanned = sum_of_bytes(plan.unplanned, bytes);  // no other sum is larger
      if (leaves[index(id)]) {
        outputs += bytes;
        continue;
      }
      if (graph.value(id).device != plan.device) continue;
      const size_t last = std::max(last_read[index(id)], i);
      if (makes_own_result(graph, node)) {
        const int64_t offset = place(apart, {id, i, last, bytes, 0});
        apart.push_back({id, i, last, bytes, offset});
        most_apart = std::max(most_apart, offset + bytes);
        continue;
      }
      const ValueId over = o == 0 ? dying_operand(graph, node, last_read, i) : graph::kNoValue;
      if (over != graph::kNoValue && plan.offsets[index(over)] >= 0) {
        const auto host = std::ranges::find_if(placed, [&](const Buffer& b) { return b.value == over; });
        plan.offsets[index(id)] = host->offset;
        host->last = last;
        host->value = id;
        ++in_place;
        continue;
      }
      Buffer buffer{id, i, last, bytes, 0};
      buffer.offset = place(placed, buffer);
      plan.offsets[index(id)] = buffer.offset;
      plan.workspace = std::max(plan.workspace, buffer.offset + bytes);
      placed.push_back(buffer);
    }
  }
  plan.peak = plan.workspace + most_apart + outputs;
  context.notes.push_back(fmt::format("{} for what lives between kernels, {} without reuse; {} in place",
                                      format_bytes(plan.workspace), format_bytes(plan.unplanned - outputs),
                                      in_place));
}

}  // namespace epilogue::compiler
