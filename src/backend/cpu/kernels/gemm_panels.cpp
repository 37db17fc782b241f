#include "backend/cpu/kernels/gemm_panels.h"

#include <string>

#include "backend/cpu/gemm_problem.h"
#include "backend/cpu/kernels/gemm.h"
#include "base/intern.h"

namespace epilogue::cpu {

PanelGemm::PanelGemm(PanelForm form, const KernelCall& call) {
  const GemmProblem p = gemm_problem(call);
  layer = {form, {p.weight, p.n, p.k, p.b_column, p.b_row}, call.op == Op::addmm ? &call.inputs[0] : nullptr};
  x = {p.a, p.dtype, p.m, p.k, p.a_row, p.a_column, layer, &not_finite};
}

const char* PanelGemm::name() const {
  thread_local const char *arithmetic = nullptr, *last = nullptr;
  if (arithmetic != layer.arithmetic()) {
    arithmetic = layer.arithmetic();
    last = intern(std::string("panel_gemm_") + arithmetic);
  }
  return last;
}

const char* refuse_gemm_panels(const KernelCall& call) {
  if (const char* reason = refuse_panels(call.inputs.back().dtype())) return reason;
  if (call.op == Op::bmm || !call.inputs.back().is_parameter())
    return "the second factor is no parameter, so its panels cannot be kept";
  if (call.op == Op::mm) return nullptr;
  const Tensor& bias = call.inputs[0];
  const bool row = bias.dim() == 1 && bias.size(0) == call.output.size(1) && bias.is_contiguous();
  return row ? nullptr : "the bias is no contiguous row";
}

namespace {

int multiply(const PanelGemm& gemm, const KernelCall& call) {
  const InputRows& x = gemm.x;
  const OutputRows y{const_cast<void*>(call.output.data()), x.dtype, gemm.layer.n};
  const int threads = threads_for(gemm.flops());
  const PanelLayer& layer = gemm.layer;
  if (x.count < layer.shape().few_rows * threads) {
    const LeftBuffer x_copy = x.buffer(x.count, Reader::all_threads);
    return multiply_by_columns(x.read({0, x.count}, x_copy), x.count, layer, y, threads);
  }
  const PanelShape shape = layer.shape();
  const int64_t slice =
      y.needs_copy() ? std::min(shape.slice(), layer.n) : layer.n;  // rounded while in cache
  const RowShares shares(x.count, rows_of_block(layer), layer, threads);
  const LeftBuffer x_copies = x.buffer(shares.all_rows(), Reader::one_thread);
  const RowBuffer y_copies = y.buffer(shares.all_rows(), slice);
  return shares.run([&](int thread, const auto& next) {
    const int64_t own = shares.row_of(thread);
    for (Span rows = next(); rows.size() > 0; rows = next()) {
      const LeftRows from = x.read(rows, x_copies.from_row(own));
      for (int64_t column = 0; column < layer.n; column += slice)
        multiply_into(from, rows, layer, {column, std::min(column + slice, layer.n)}, y,
                      y_copies.from_row(own));
    }
  });
}

}  // namespace

KernelRan run_gemm_panels(const KernelCall& call) {
  return run_in_panels(call.inputs.back().dtype(), call.output.size(0),
                       [&](PanelForm form) -> std::optional<KernelRan> {
                         const PanelGemm gemm(form, call);
                         if (!gemm.layer.is_weights()) return {};
                         const int threads = multiply(gemm, call);
                         if (gemm.not_finite) return {};
                         return KernelRan{gemm.name(), threads};
                       });
}

}  // namespace epilogue::cpu
