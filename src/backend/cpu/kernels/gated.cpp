#include "backend/cpu/kernels/gated.h"

#include <array>
#include <atomic>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backend/cpu/gemm_problem.h"
#include "backend/cpu/kernels/panel_layer.h"
#include "backend/cpu/kernels/pointwise.h"
#include "base/intern.h"

namespace epilogue::cpu {
namespace {

// Of a thread's buffers, where rows are very long, and of its share in what few rows leave between the two
// products: with what the allocator adds both stay below the 8 MB that a forward may take.
constexpr int64_t kBlockBytes = 7 << 20, kHiddenBytes = 6 << 20;

// act(gate) * up, by the row kernels of eager's ops: one for the pair where there is one.
class Gate {
 public:
  explicit Gate(Act act) {
    const auto row = [](Pointwise function) { return pointwise_kernel(function, DType::f32).row; };
    if (act == Act::relu) alone_ = row(Pointwise::relu);
    times_ = row(act == Act::silu        ? Pointwise::silu_mul
                 : act == Act::gelu_tanh ? Pointwise::gelu_tanh_mul
                 : act == Act::gelu      ? Pointwise::gelu_mul
                                         : Pointwise::mul);
  }
  // In the place of `gate`.
  void operator()(float* gate, const float* up, int64_t n) const {
    if (alone_) alone_(gate, gate, nullptr, n);
    times_(gate, gate, up, n);
  }

 private:
  RowKernel alone_ = nullptr, times_ = nullptr;
};

class GatedProblem {
 public:
  GatedProblem(PanelForm form, const KernelCall& call);
  // The number of threads; nothing where the panels' form does not take the numbers.
  std::optional<int> run();
  const char* arithmetic() const { return gate_.arithmetic(); }

 private:
  // What act(gate) * up is made in, some columns at a time: up, and gate where it cannot be made in its
  // place.
  struct Scratch {
    Rows gate, up;
  };
  // Where some rows of it go: y's from `row` on without a down, otherwise to `rows`, whose first column is
  // `column`.
  struct Hidden {
    int64_t row, column;
    LeftRows rows;
  };
  // Some columns of gate(x) and up(x), of which act(gate) * up is to be made.
  struct Products {
    Hidden hidden;
    int64_t rows;
    Span columns;
    Rows gate, up;
  };
  // Of a thread: places for the next products, in turns, and what it is to make beside them.
  struct alignas(64) Making {
    std::array<Scratch, 2> scratch;
    Products left = {};
  };
  struct ScratchBuffers {
    std::array<RowBuffer, 2> gate, up;
    Making from_row(int64_t row) const {
      return {.scratch = {Scratch{gate[0].from_row(row), up[0].from_row(row)},
                          Scratch{gate[1].from_row(row), up[1].from_row(row)}}};
    }
  };
  Rows gate_place(const Hidden& hidden, int64_t column, const Scratch& scratch) const;
  ScratchBuffers scratch(int64_t rows, int64_t columns) const;
  void multiply_gated(const LeftRows& x, int64_t rows, Span columns, const Hidden& hidden, Making& making,
                      const void* next);
  void make_row(const Products& products, int64_t row);
  void make_rest(Making& making);
  void run_block(const LeftRows& x, int64_t rows, Hidden hidden, Making& making, const Rows& y);
  int run_row_blocks(int threads);
  int run_columns(int threads);

  std::atomic<bool> not_finite_ = false;  // x, or what was made of it
  InputRows x_;
  OutputRows y_;
  Gate act_mul_;
  bool has_down_;
  PanelLayer gate_, up_, down_;
  GatedTileRow make_in_tile_ = nullptr;
  // Columns of hidden that are made at a time: of many rows by tiles so few that all stays in L1.
  int64_t step_;
  bool makes_aside_;  // each while the next ones are multiplied
};

PanelLayer layer_of(PanelForm form, const KernelCall& call, size_t weights, size_t i) {
  const Tensor& weight = call.inputs[1 + i];
  const Tensor* bias = call.inputs.size() > 1 + weights ? &call.inputs[1 + weights + i] : nullptr;
  return {form, {&weight, weight.size(0), weight.size(1), weight.stride(0), weight.stride(1)}, bias};
}

size_t weights_of(const KernelCall& call) { return call.op == Op::gated_mlp ? 3 : 2; }

GatedProblem::GatedProblem(PanelForm form, const KernelCall& call)
    : act_mul_(call.attrs.act),
      has_down_(call.op == Op::gated_mlp),
      gate_(layer_of(form, call, weights_of(call), 0)),
      up_(layer_of(form, call, weights_of(call), 1)) {
  if (has_down_) down_ = layer_of(form, call, weights_of(call), 2);
  const Tensor& x = call.inputs[0];
  x_ = {x.data(), x.dtype(), x.numel() / gate_.k, gate_.k, gate_.k, x.stride(-1), gate_, &not_finite_};
  if (x.dim() == 2) x_.row_stride = x.stride(0);
  const PanelShape shape = gate_.shape();
  const bool many = x_.count > shape.tile_rows;
  step_ = gate_.in_tiles() && many ? shape.columns : shape.slice();
  makes_aside_ = many && shape.aside;
  if (gate_.in_tiles()) make_in_tile_ = gated_tile_row(call.attrs.act, form);
  y_ = {const_cast<void*>(call.output.data()), x.dtype(), has_down_ ? down_.n : gate_.n};
}

GatedProblem::ScratchBuffers GatedProblem::scratch(int64_t rows, int64_t columns) const {
  const bool in_place = has_down_ ? !gate_.in_tiles() : !y_.needs_copy();
  ScratchBuffers buffers;
  for (size_t i = 0; i < (makes_aside_ ? 2 : 1); ++i) {
    if (!in_place) buffers.gate[i] = RowBuffer(rows, columns);
    buffers.up[i] = RowBuffer(rows, columns);
  }
  return buffers;
}

Rows GatedProblem::gate_place(const Hidden& hidden, int64_t column, const Scratch& scratch) const {
  if (!has_down_) return y_.place(hidden.row, column, scratch.gate);
  if (gate_.in_tiles()) return scratch.gate;
  return {static_cast<float*>(hidden.rows.at(0, column - hidden.column)), hidden.rows.stride};
}

void GatedProblem::make_row(const Products& products, int64_t row) {
  const auto& [hidden, rows, columns, gate, up] = products;
  if (!has_down_ || !gate_.in_tiles()) {
    act_mul_(gate.at(row), up.at(row), columns.size());
    if (!has_down_) y_.store({hidden.row + row, hidden.row + row + 1}, columns, gate.from_row(row));
    return;
  }
  for (int64_t column = columns.begin; column < columns.end; column += kAmxDepth) {
    const int64_t from = column - columns.begin, width = std::min(columns.end - column, kAmxDepth);
    void* to = hidden.rows.at(row, column - hidden.column);
    if (!make_in_tile_(gate.at(row, from), up.at(row, from), width, static_cast<uint16_t*>(to)))
      not_finite_ = true;
  }
}

void GatedProblem::make_rest(Making& making) {
  for (int64_t row = 0; row < making.left.rows; ++row) make_row(making.left, row);
  making.left.rows = 0;
}

// Some columns of act(gate) * up; the last of them may be left to make_rest().
void GatedProblem::multiply_gated(const LeftRows& x, int64_t rows, Span columns, const Hidden& hidden,
                                  Making& making, const void* next) {
  const auto make = [&](int64_t row) { make_row(making.left, row); };
  for (int64_t column = columns.begin, after = 0; column < columns.end; column = after) {
    after = std::min(column + step_, columns.end);
    const Scratch scratch = making.scratch[0];
    const Rows gate = gate_place(hidden, column, scratch);
    const Span left{0, making.left.rows};
    const Aside beside_gate{make, left.share(0, 2)}, beside_up{make, left.share(1, 2)};
    multiply_columns(x, rows, gate_, {column, after}, gate, up_.at(column, 0), &beside_gate);
    multiply_columns(x, rows, up_, {column, after}, scratch.up,
                     after < columns.end ? gate_.at(after, 0) : next, &beside_up);
    making.left = {hidden, rows, {column, after}, gate, scratch.up};
    makes_aside_ ? std::swap(making.scratch[0], making.scratch[1]) : make_rest(making);
  }
}

// A slice of the hidden size after the other, each added to y as long as it is in L2.
void GatedProblem::run_block(const LeftRows& x, int64_t rows, Hidden hidden, Making& making, const Rows& y) {
  const PanelShape shape = gate_.shape();
  const int64_t panels = (gate_.n + shape.columns - 1) / shape.columns;
  const int64_t slices = (panels + shape.slice_panels - 1) / shape.slice_panels;
  for (int64_t i = 0; i < slices; ++i) {
    const Span some = Span{0, panels}.share(i, slices);
    const Span slice{some.begin * shape.columns, std::min(some.end * shape.columns, gate_.n)};
    const void* next = gate_.at(i + 1 < slices ? slice.end : 0, 0);
    hidden.column = slice.begin;
    multiply_gated(x, rows, slice, hidden, making, has_down_ ? down_.at(0, slice.begin) : next);
    make_rest(making);
    if (has_down_) multiply_part(hidden.rows, rows, down_, slice, {0, down_.n}, y, next);
  }
}

int GatedProblem::run_row_blocks(int threads) {
  const PanelShape shape = gate_.shape();
  const int64_t row_elements = 2 * shape.slice() + x_.width + (y_.needs_copy() ? y_.width : 0);
  const int64_t row_bytes = row_elements * std::max<int64_t>(4, gate_.row_element_bytes());
  const int64_t room = kBlockBytes / row_bytes, whole = gate_.whole_rows(1);
  const int64_t most = std::clamp(room / whole * whole, whole, shape.block_rows);
  const RowShares shares(x_.count, most, gate_, threads);
  const int64_t all = shares.all_rows();
  const ScratchBuffers buffers = scratch(all, step_);
  const LeftBuffer x_copies = x_.buffer(all, Reader::one_thread);
  const LeftBuffer slices = has_down_ ? LeftBuffer(all, shape.slice(), down_) : LeftBuffer();
  const RowBuffer y_copies = has_down_ ? y_.buffer(all, y_.width) : RowBuffer();
  return shares.run([&](int thread, const auto& next) {
    const int64_t own = shares.row_of(thread);
    Making making = buffers.from_row(own);
    for (Span rows = next(); rows.size() > 0; rows = next()) {
      const Rows y = has_down_ ? y_.place(rows.begin, 0, y_copies.from_row(own)) : Rows();
      run_block(x_.read(rows, x_copies.from_row(own)), rows.size(), {rows.begin, 0, slices.from_row(own)},
                making, y);
      if (has_down_) y_.store(rows, {0, y_.width}, y);
    }
  });
}

// Few rows: threads share the columns of hidden, then those of y.
int GatedProblem::run_columns(int threads) {
  const int64_t rows = x_.count;
  const LeftBuffer x_copy = x_.buffer(rows, Reader::all_threads);
  const LeftRows x = x_.read({0, rows}, x_copy);
  const LeftBuffer hidden = has_down_ ? LeftBuffer(rows, gate_.n, down_) : LeftBuffer();
  const ColumnShares shares(rows, gate_, threads);
  const ScratchBuffers buffers = scratch(shares.all_rows(), std::min(step_, shares.widest()));
  std::vector<Making> makings;
  makings.reserve(static_cast<size_t>(threads));
  for (int thread = 0; thread < threads; ++thread) makings.push_back(buffers.from_row(shares.row_of(thread)));
  const auto making = [&](int thread) -> Making& { return makings[static_cast<size_t>(thread)]; };
  const auto multiply = [&](int thread, Span part, Span columns) {
    const void* next = gate_.at(columns.end < gate_.n ? columns.end : 0, 0);
    multiply_gated(x.from_row(part.begin), part.size(), columns,
                   {part.begin, 0, has_down_ ? hidden.from_row(part.begin) : LeftRows()}, making(thread),
                   next);
  };
  const int used = shares.run(multiply, [&](int thread) { make_rest(making(thread)); });
  return has_down_ ? multiply_by_columns(hidden, rows, down_, y_, threads) : used;
}

std::optional<int> GatedProblem::run() {
  if (!gate_.is_weights() || !up_.is_weights() || !down_.is_weights()) return {};
  const int threads =
      threads_for(2 * x_.count * (2 * gate_.n * gate_.k + (has_down_ ? down_.n * down_.k : 0)));
  const int64_t kept = gate_.n + (x_.readable() ? 0 : x_.width);  // of a row, where threads share columns
  const int64_t bytes = gate_.whole_rows(x_.count) * kept * gate_.row_element_bytes();
  const bool few = x_.count < gate_.shape().few_rows * threads && bytes <= kHiddenBytes * threads;
  const int used = few ? run_columns(threads) : run_row_blocks(threads);
  if (not_finite_) return {};
  return used;
}

// "panel_gated_mlp_gelu_tanh_avx512_f32", "panel_gated_linear_avx2_f32_from_bf16"
const char* kernel_name(const KernelCall& call, const char* arithmetic) {
  struct Key {
    Op op = Op::fused;
    Act act = Act::none;
    const char* arithmetic = nullptr;
    bool operator==(const Key&) const = default;
  };
  thread_local Key last;
  thread_local const char* name = nullptr;
  const Key key{call.op, call.attrs.act, arithmetic};
  if (key != last)
    name = intern(fmt::format("panel_{}{}{}_{}", key.op == Op::gated_mlp ? "gated_mlp" : "gated_linear",
                              key.act == Act::none ? "" : "_", key.act == Act::none ? "" : act_name(key.act),
                              arithmetic));
  last = key;
  return name;
}

}  // namespace

const char* refuse_gated(const KernelCall& call) {
  if (const char* reason = refuse_panels(call.output.dtype())) return reason;
  const size_t weights = weights_of(call);
  for (size_t i = 1; i <= weights; ++i) {
    if (!call.inputs[i].is_parameter()) return "a weight is no parameter, so its panels cannot be kept";
    if (call.inputs[i].numel() == 0) return "there is nothing to multiply";
  }
  for (size_t i = 1 + weights; i < call.inputs.size(); ++i)
    if (!call.inputs[i].is_contiguous()) return "a bias has gaps";
  const Tensor& x = call.inputs[0];
  return x.dim() == 2 || x.is_contiguous() ? nullptr : "the rows of x are not evenly apart";
}

KernelRan run_gated(const KernelCall& call) {
  const Tensor &x = call.inputs[0], &gate = call.inputs[1];
  return run_in_panels(x.dtype(), x.numel() / gate.size(1), [&](PanelForm form) -> std::optional<KernelRan> {
    GatedProblem problem(form, call);
    if (const auto threads = problem.run())
      return KernelRan{kernel_name(call, problem.arithmetic()), *threads};
    return {};
  });
}

}  // namespace epilogue::cpu
