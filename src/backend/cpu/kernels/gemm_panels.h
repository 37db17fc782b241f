// mm and addmm over a weight in panels: what the plain kernel and the one with a program share.
#pragma once

#include "backend/backend.h"
#include "backend/cpu/kernels/panel_layer.h"

namespace epilogue::cpu {

// A call that refuse_gemm_panels takes.
struct PanelGemm {
  PanelGemm(PanelForm form, const KernelCall& call);
  PanelGemm(const PanelGemm&) = delete;
  PanelGemm& operator=(const PanelGemm&) = delete;

  int64_t flops() const { return 2 * x.count * layer.n * layer.k; }
  const char* name() const;  // "panel_gemm_avx512_f32", "panel_gemm_amx_bf16"

  InputRows x;
  PanelLayer layer;
  mutable std::atomic<bool> not_finite = false;  // x has a number that `form` cannot take; `x` sets it
};

}  // namespace epilogue::cpu
