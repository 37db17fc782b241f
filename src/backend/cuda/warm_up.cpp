#include "backend/cuda/warm_up.h"

#include <exception>

#include "backend/cuda/cublaslt.h"
#include "backend/cuda/kernels/gated_gemm.h"
#include "backend/cuda/kernels/mlp_gemm.h"
#include "base/beside.h"
#include "profile/event.h"

namespace epilogue::cuda {
namespace {

void load_what_products_need(CudaDevice& device, const std::atomic<bool>& ending) {
  // A profile shows what was asked for alone.
  const auto goes_on = [&] { return !ending && profile::recording_now() == 0; };
  try {
    device.make_current();
    GemmKey key{.m = 64, .n = 64, .k = 64, .a_ld = 64, .b_ld = 64};
    key.dtype = DType::bf16;
    if (goes_on()) (void)GemmPlan(key).candidates(device, 1);
    for (const DType dtype : {DType::bf16, DType::f16})
      for (const bool gated : {false, true})
        if (goes_on() && device.properties().major == 9) (void)load_gated_gemm(dtype, gated);
    for (const DType dtype : {DType::bf16, DType::f16})
      if (goes_on() && device.properties().major == 9) (void)load_mlp_gemm(dtype);
  } catch (const std::exception&) {
    // What fails here fails again where it is needed, and is reported there.
  }
}

}  // namespace

void warm_up(CudaDevice& device) {
  run_beside([&device](const std::atomic<bool>& ending) { load_what_products_need(device, ending); });
}

}  // namespace epilogue::cuda
