// The captured graph: values, and the nodes that make them, in an order in which they can run.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "op/op.h"
#include "op/program.h"
#include "tensor/view.h"

namespace epilogue::graph {

using ValueId = int32_t;
inline constexpr ValueId kNoValue = -1;

enum class ValueKind : uint8_t { input, constant, result };

// Parameters laid below one another along their first dimension: one constant made of several.
using Parts = std::vector<Tensor>;

struct Value {
  ValueKind kind = ValueKind::result;
  DType dtype = DType::f32;
  Device device{};
  Layout layout;            // over the storage of `base`; a base has the offset it was captured with
  ValueId base = kNoValue;  // the value whose storage this is a view of; itself when it has its own
  Tensor constant;          // of a constant with one part
  Parts parts;              // of a stacked constant
  const Dims& sizes() const { return layout.sizes; }
};

struct Node {
  Op op = Op::add;
  Attrs attrs;
  std::vector<ValueId> inputs;  // a product with a program: its own inputs, then the program's operands
  std::vector<ValueId> outputs;
  std::shared_ptr<const PointwiseProgram> program;  // of `fused`, or a product's epilogue
};

struct Graph {
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<ValueId> inputs, outputs;
  // Sizes that stand for the leading dimensions, when they were captured as such: printed by their names.
  std::vector<std::pair<std::string, int64_t>> symbols;
  bool absolute_offsets = false;  // as_strided was asked of an input: its place in its storage matters

  Value& value(ValueId id) { return values[static_cast<size_t>(id)]; }
  const Value& value(ValueId id) const { return values[static_cast<size_t>(id)]; }
  ValueId add_value(Value value);  // its base becomes itself when it has none
  // The node that makes it, or null for an input or a constant. Linear in the nodes.
  const Node* producer(ValueId id) const;
  // How often each value is read, by nodes and as an output.
  std::vector<int> count_reads() const;
  // Reads of `from` become reads of `to`.
  void replace_reads(ValueId from, ValueId to);
};

bool is_view(const Node& node);
bool is_pointwise(const Node& node);  // an op of class pointwise, not yet fused nor asked of one kernel
bool is_product(const Node& node);
bool is_gated(const Node& node);  // a gated MLP or its first half as one kernel
bool moves_to_device(const Graph& graph, const Node& node);
// The inputs a product has without its epilogue's operands.
int own_inputs(const Node& node);

// Whether both reach the same elements in the same order.
bool same_layout(const Layout& a, const Layout& b);

// Puts a node at `at` that views `of` by the layout; where that is its own layout, gives `of` itself.
ValueId add_view(Graph& graph, ValueId of, const Layout& layout, size_t at);

// Readable text, a node a line. Sizes that are products of symbols are printed as such.
std::string to_text(const Graph& graph);

// The same without sizes and names of constants: equal for two graphs that need the same kernels.
std::string structure(const Graph& graph);

// Throws Error that names the node when a value is read before it is made, made twice, or does not have the
// shape and dtype that infer gives; `after` names the pass for the message.
void verify(const Graph& graph, const std::string& after);

// Runs the graph op by op, as eager does.
std::vector<Tensor> run_eagerly(const Graph& graph, std::span<const Tensor> inputs);

// A tensor without contents, for inference. Views of it may reach as far as its storage has bytes.
inline constexpr size_t kBoundlessStorage = SIZE_MAX / 16;
Tensor stand_in(const Value& value, size_t storage_bytes = kBoundlessStorage);

}  // namespace epilogue::graph
