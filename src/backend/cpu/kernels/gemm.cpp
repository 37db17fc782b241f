#include "backend/cpu/kernels/gemm.h"

#include "backend/cpu/kernels/gemm_product.h"
#include "base/check.h"

namespace epilogue::cpu {

const char* refuse_gemm_onednn(const KernelCall& call) {
  return call.output.dtype() == DType::f64 ? "oneDNN multiplies no f64 on the CPU" : nullptr;
}

KernelRan run_gemm_onednn(const KernelCall& call) {
  KernelRan ran;
  const int64_t batches = call.op == Op::bmm ? call.output.size(0) : 1;
  try {
    for (int64_t batch = 0; batch < batches; ++batch) {
      const Product product = prepare_product(gemm_problem(call, batch));
      ran = multiply_product(product);
      ran.name = name_with_storage(ran.name, product);
    }
  } catch (const dnnl::error& error) {
    fail("{}: oneDNN could not make a product giving {} {}: {}", op_row(call.op).name,
         dtype_name(call.output.dtype()), call.output.sizes().to_string(), error.what());
  }
  return ran;
}

}  // namespace epilogue::cpu
