#include "backend/cpu/kernels/gated.h"

#include <string>

#include <fmt/format.h>

#include "backend/cpu/gemm_problem.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/kernels/panel_layer.h"
#include "backend/cpu/kernels/pointwise.h"
#include "base/intern.h"

namespace epilogue::cpu {
namespace {

constexpr int64_t kBlockBytes = 7 << 20;  // of a thread's buffers, where rows are very long

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
  explicit GatedProblem(const KernelCall& call);
  int run() const;  // returns the number of threads

 private:
  void multiply_gated(const Rows& x, int64_t rows, Span columns, const Rows& hidden, const Rows& up,
                      const void* next) const;
  void run_block(const Rows& x, int64_t rows, const Rows& gate, const Rows& up, const Rows& y) const;
  int run_row_blocks(int threads) const;
  int run_columns(int threads) const;

  InputRows x_;
  OutputRows y_;
  Gate act_mul_;
  bool has_down_;
  PanelLayer gate_, up_, down_;
};

PanelLayer layer_of(const KernelCall& call, size_t weights, size_t i) {
  const Tensor& weight = call.inputs[1 + i];
  const Tensor* bias = call.inputs.size() > 1 + weights ? &call.inputs[1 + weights + i] : nullptr;
  return {{&weight, weight.size(0), weight.size(1), weight.stride(0), weight.stride(1)}, bias};
}

size_t weights_of(const KernelCall& call) { return call.op == Op::gated_mlp ? 3 : 2; }

GatedProblem::GatedProblem(const KernelCall& call)
    : act_mul_(call.attrs.act),
      has_down_(call.op == Op::gated_mlp),
      gate_(layer_of(call, weights_of(call), 0)),
      up_(layer_of(call, weights_of(call), 1)) {
  if (has_down_) down_ = layer_of(call, weights_of(call), 2);
  const Tensor& x = call.inputs[0];
  x_ = {x.data(), x.dtype(), x.numel() / gate_.k, gate_.k, gate_.k, x.stride(-1)};
  if (x.dim() == 2) x_.row_stride = x.stride(0);
  y_ = {const_cast<void*>(call.output.data()), x.dtype(), has_down_ ? down_.n : gate_.n};
}

// Some columns of act(gate) * up, into `hidden`; `up` is a buffer.
void GatedProblem::multiply_gated(const Rows& x, int64_t rows, Span columns, const Rows& hidden,
                                  const Rows& up, const void* next) const {
  multiply_columns(x, rows, gate_, columns, hidden, up_.at(columns.begin, 0));
  multiply_columns(x, rows, up_, columns, up, next);
  for (int64_t r = 0; r < rows; ++r) act_mul_(hidden.at(r), up.at(r), columns.size());
}

// A slice of the hidden size after the other, each added to y as long as it is in L2.
void GatedProblem::run_block(const Rows& x, int64_t rows, const Rows& gate, const Rows& up,
                             const Rows& y) const {
  const int64_t panel = panel_shape().columns, panels = (gate_.n + panel - 1) / panel;
  const int64_t slices = (panels + kSlicePanels - 1) / kSlicePanels;
  for (int64_t i = 0; i < slices; ++i) {
    const Span slice{panels * i / slices * panel, std::min(panels * (i + 1) / slices * panel, gate_.n)};
    const void* next = gate_.at(i + 1 < slices ? slice.end : 0, 0);
    if (!has_down_) {
      multiply_gated(x, rows, slice, y.from_column(slice.begin), up, next);
    } else {
      multiply_gated(x, rows, slice, gate, up, down_.at(0, slice.begin));
      multiply_part(gate, rows, down_, slice, {0, down_.n}, y, next);
    }
  }
}

int GatedProblem::run_row_blocks(int threads) const {
  const int64_t slice = kSlicePanels * panel_shape().columns;
  const int64_t row_elements =
      2 * slice + (x_.needs_copy() ? x_.width : 0) + (y_.needs_copy() ? y_.width : 0);
  const int64_t most = std::clamp<int64_t>(kBlockBytes / 4 / row_elements, 1, kBlockRows);
  return share_rows(x_.count, most, threads, [&](int64_t longest, const auto& next) {
    const RowBuffer gate(longest, slice), up(longest, slice);
    const RowBuffer x_copy = x_.buffer(longest), y_copy = y_.buffer(longest);
    for (Span rows = next(); rows.size() > 0; rows = next()) {
      const Rows y = y_.place(rows.begin, y_copy);
      run_block(x_.read(rows, x_copy), rows.size(), gate, up, y);
      y_.store(rows, y);
    }
  });
}

// Few rows: threads share the columns of hidden, then those of y.
int GatedProblem::run_columns(int threads) const {
  const int64_t rows = x_.count;
  const RowBuffer x_copy = x_.buffer(rows), y_copy = y_.buffer(rows);
  const Rows x = x_.read({0, rows}, x_copy), y = y_.place(0, y_copy);
  const RowBuffer between = has_down_ ? RowBuffer(rows, gate_.n) : RowBuffer();
  const Rows hidden = has_down_ ? Rows(between) : y;
  const int used = share_columns(gate_.n, threads, [&](Span columns) {
    const RowBuffer up(rows, columns.size());
    const void* next = gate_.at(columns.end < gate_.n ? columns.end : 0, 0);
    multiply_gated(x, rows, columns, hidden.from_column(columns.begin), up, next);
  });
  if (has_down_) multiply_by_columns(hidden, rows, down_, y, threads);
  y_.store({0, rows}, y);
  return used;
}

int GatedProblem::run() const {
  const int threads =
      threads_for(2 * x_.count * (2 * gate_.n * gate_.k + (has_down_ ? down_.n * down_.k : 0)));
  return x_.count < kFewRows * threads ? run_columns(threads) : run_row_blocks(threads);
}

// "panel_gated_mlp_gelu_tanh_avx512_f32", "panel_gated_linear_avx2_f32_from_bf16"
std::string make_name(Op op, Act act, DType dtype) {
  return fmt::format("panel_{}{}{}_{}_f32{}{}", op == Op::gated_mlp ? "gated_mlp" : "gated_linear",
                     act == Act::none ? "" : "_", act == Act::none ? "" : act_name(act), isa_name(),
                     dtype == DType::f32 ? "" : "_from_", dtype == DType::f32 ? "" : dtype_name(dtype));
}

const char* kernel_name(const KernelCall& call) {
  struct Key {
    Op op = Op::fused;
    Act act = Act::none;
    DType dtype = DType::f32;
    const char* isa = nullptr;
    bool operator==(const Key&) const = default;
  };
  thread_local Key last;
  thread_local const char* name = nullptr;
  const Key key{call.op, call.attrs.act, call.output.dtype(), isa_name()};
  if (key != last) name = intern(make_name(key.op, key.act, key.dtype));
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
  const GatedProblem problem(call);
  return {kernel_name(call), problem.run()};
}

}  // namespace epilogue::cpu
