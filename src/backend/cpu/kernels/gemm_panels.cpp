#include "backend/cpu/kernels/gemm_panels.h"

#include "backend/cpu/gemm_problem.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/kernels/gemm.h"
#include "base/intern.h"

namespace epilogue::cpu {

PanelGemm::PanelGemm(const KernelCall& call) {
  const GemmProblem p = gemm_problem(call);
  x = {p.a, p.dtype, p.m, p.k, p.a_row, p.a_column};
  layer = {{p.weight, p.n, p.k, p.b_column, p.b_row}, call.op == Op::addmm ? &call.inputs[0] : nullptr};
}

const char* PanelGemm::name() const {
  thread_local const char *isa = nullptr, *last = nullptr;
  thread_local DType stored = DType::f32;
  if (isa != isa_name() || stored != x.dtype) {
    isa = isa_name();
    stored = x.dtype;
    last = intern(std::string("panel_gemm_") + isa + "_f32" +
                  (stored == DType::f32 ? "" : std::string("_from_") + dtype_name(stored)));
  }
  return last;
}

const char* refuse_gemm_panels(const KernelCall& call) {
  if (const char* reason = refuse_panels(call.output.dtype())) return reason;
  if (call.op == Op::bmm || !call.inputs.back().is_parameter())
    return "the second factor is no parameter, so its panels cannot be kept";
  if (call.op == Op::mm) return nullptr;
  const Tensor& bias = call.inputs[0];
  const bool row = bias.dim() == 1 && bias.size(0) == call.output.size(1) && bias.is_contiguous();
  return row ? nullptr : "the bias is no contiguous row";
}

KernelRan run_gemm_panels(const KernelCall& call) {
  const PanelGemm gemm(call);
  const InputRows& x = gemm.x;
  const OutputRows y{const_cast<void*>(call.output.data()), x.dtype, gemm.layer.n};
  const int threads = threads_for(gemm.flops());
  if (x.count < kFewRows * threads) {
    const RowBuffer x_copy = x.buffer(x.count), y_copy = y.buffer(x.count);
    const Rows to = y.place(0, y_copy);
    const int used = multiply_by_columns(x.read({0, x.count}, x_copy), x.count, gemm.layer, to, threads);
    y.store({0, x.count}, to);
    return {gemm.name(), used};
  }
  const int used = share_rows(x.count, kBlockRows, threads, [&](int64_t longest, const auto& next) {
    const RowBuffer x_copy = x.buffer(longest), y_copy = y.buffer(longest);
    for (Span rows = next(); rows.size() > 0; rows = next()) {
      const Rows to = y.place(rows.begin, y_copy);
      multiply_columns(x.read(rows, x_copy), rows.size(), gemm.layer, {0, gemm.layer.n}, to,
                       gemm.layer.at(0, 0));
      y.store(rows, to);
    }
  });
  return {gemm.name(), used};
}

}  // namespace epilogue::cpu
