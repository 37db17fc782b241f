#include "graph/capture.h"

#include <array>

#include "base/check.h"
#include "op/infer.h"
#include "tensor/storage.h"

namespace epilogue::graph {
namespace {

class Capture final : public Recorder {
 public:
  explicit Capture(Graph& graph) : graph_(graph) {}

  Tensor add_input(const Value& like, size_t storage_bytes) {
    Value value = like;
    value.kind = ValueKind::input;
    const ValueId id = graph_.add_value(std::move(value));
    graph_.inputs.push_back(id);
    return stand_in_for(id, storage_bytes);
  }

  Tensor record(Op op, std::span<const Tensor> inputs, const Attrs& attrs) override {
    const OpRow& row = op_row(op);
    EP_CHECK(op != Op::copy_,
             "compile: the function writes in place ({}); return the value and copy it after the call",
             row.name);
    const Inferred out = infer(op, inputs, attrs);
    if (op == Op::fill_) return record_fill(inputs[0], attrs);
    Node node{.op = op, .attrs = attrs, .inputs = {}, .outputs = {}, .program = nullptr};
    for (const Tensor& input : inputs) node.inputs.push_back(value_of(input));
    Value value{.kind = ValueKind::result, .dtype = out.dtype, .device = out.device, .layout = out.layout};
    if (row.op_class == OpClass::view) {
      value.base = graph_.value(node.inputs[0]).base;
      graph_.absolute_offsets |= op == Op::as_strided && graph_.value(value.base).kind == ValueKind::input;
    }
    return add_node(std::move(node), std::move(value));
  }

  ValueId value_of(const Tensor& tensor) {
    const auto known = by_storage_.find(tensor.storage());
    if (known == by_storage_.end()) return add_constant(tensor);
    for (auto id = known->second.rbegin(); id != known->second.rend(); ++id)
      if (same_view(graph_.value(*id), tensor)) return *id;
    const ValueId base = graph_.value(known->second.front()).base;
    if (graph_.value(base).kind == ValueKind::constant) return add_constant(tensor);
    graph_.absolute_offsets = true;
    const ValueId made =
        add_view(graph_, base, {tensor.sizes(), tensor.strides(), tensor.offset()}, graph_.nodes.size());
    by_storage_[tensor.storage()].push_back(made);
    return made;
  }

 private:
  static bool same_view(const Value& value, const Tensor& tensor) {
    return value.dtype == tensor.dtype() && value.layout.sizes == tensor.sizes() &&
           value.layout.strides == tensor.strides() && value.layout.offset == tensor.offset();
  }

  // full(), zeros() and ones() fill what nobody has seen yet: a new value, and no write.
  Tensor record_fill(const Tensor& target, const Attrs& attrs) {
    EP_CHECK(!by_storage_.contains(target.storage()),
             "compile: the function writes in place ({}); make a new tensor with full() instead",
             op_row(Op::fill_).name);
    Node node{.op = Op::fill_, .attrs = attrs, .inputs = {}, .outputs = {}, .program = nullptr};
    node.attrs.sizes = target.sizes();
    return add_node(std::move(node), {.kind = ValueKind::result,
                                      .dtype = target.dtype(),
                                      .device = target.device(),
                                      .layout = {target.sizes(), contiguous_strides(target.sizes()), 0}});
  }

  Tensor add_node(Node node, Value value) {
    const ValueId base = value.base;
    const ValueId id = graph_.add_value(std::move(value));
    node.outputs = {id};
    graph_.nodes.push_back(std::move(node));
    const Value& made = graph_.value(id);
    if (base == kNoValue) return stand_in_for(id, bytes_for(made.sizes(), made.dtype));
    const Tensor& owner = owners_.at(base);
    by_storage_[owner.storage()].push_back(id);
    return Tensor::over(owner.storage_ref(), made.dtype, made.layout.sizes, made.layout.strides,
                        made.layout.offset);
  }

  ValueId add_constant(const Tensor& tensor) {
    const ValueId id = graph_.add_value({.kind = ValueKind::constant,
                                         .dtype = tensor.dtype(),
                                         .device = tensor.device(),
                                         .layout = {tensor.sizes(), tensor.strides(), tensor.offset()},
                                         .constant = tensor});
    keep(id, tensor);
    return id;
  }

  // Its storage has the bytes that the real one has: capture refuses the as_strided that eager refuses.
  Tensor stand_in_for(ValueId id, size_t storage_bytes) {
    Tensor tensor = stand_in(graph_.value(id), storage_bytes);
    keep(id, tensor);
    return tensor;
  }

  // Storages are told apart by their address, so each lives as long as the capture.
  void keep(ValueId id, const Tensor& tensor) {
    owners_.emplace(id, tensor);
    by_storage_[tensor.storage()].push_back(id);
  }

  Graph& graph_;
  std::unordered_map<ValueId, Tensor> owners_;  // of the bases
  std::unordered_map<const Storage*, std::vector<ValueId>> by_storage_;
};

Value value_like(const Tensor& tensor) {
  return {.dtype = tensor.dtype(),
          .device = tensor.device(),
          .layout = {tensor.sizes(), tensor.strides(), tensor.offset()}};
}

// Leading sizes other than 1 become primes; equal ones stay equal, since the function may rely on it.
Value with_symbols(Graph& graph, Value value) {
  constexpr std::array<int64_t, 12> kPrimes{10007, 10009, 10037, 10039, 10061, 10067,
                                            10069, 10079, 10091, 10093, 10099, 10103};
  const int dims = value.layout.sizes.size();
  const bool contiguous = is_contiguous(value.layout.sizes, value.layout.strides);
  if (!contiguous) return value;
  static thread_local std::vector<std::pair<int64_t, int64_t>> real;  // size, its prime
  if (graph.symbols.empty()) real.clear();
  for (int d = 0; d + 1 < dims; ++d) {
    int64_t& size = value.layout.sizes[d];
    if (size <= 1) continue;
    int64_t prime = 0;
    for (const auto& [known, standing] : real)
      if (known == size) prime = standing;
    if (prime == 0 && real.size() < kPrimes.size()) {
      prime = kPrimes[real.size()];
      graph.symbols.emplace_back(fmt::format("s{}", real.size()), prime);
      real.emplace_back(size, prime);
    }
    if (prime != 0) size = prime;
  }
  value.layout.strides = contiguous_strides(value.layout.sizes);
  return value;
}

}  // namespace

Tensor stand_in(const Value& value, size_t storage_bytes) {
  detail::StorageRef storage = storage_over(nullptr, storage_bytes, value.device, {});
  storage.get()->captured = true;
  return Tensor::over(std::move(storage), value.dtype, value.layout.sizes, value.layout.strides,
                      value.layout.offset);
}

Graph capture(const Function& function, std::span<const Tensor> inputs, const CaptureOptions& options) {
  Graph graph;
  Capture recorder(graph);
  std::vector<Tensor> stand_ins;
  for (size_t i = 0; i < inputs.size(); ++i) {
    EP_CHECK(inputs[i].defined(), "compile: input {} is an undefined tensor", i);
    const Value like = value_like(inputs[i]);
    stand_ins.push_back(options.symbols ? recorder.add_input(with_symbols(graph, like), kBoundlessStorage)
                                        : recorder.add_input(like, inputs[i].storage()->bytes));
  }
  const RecordingScope scope(recorder);
  const std::vector<Tensor> outputs = function(stand_ins);
  for (size_t i = 0; i < outputs.size(); ++i) {
    EP_CHECK(outputs[i].defined(), "compile: the function returned an undefined tensor as output {}", i);
    graph.outputs.push_back(recorder.value_of(outputs[i]));
  }
  return graph;
}

}  // namespace epilogue::graph
