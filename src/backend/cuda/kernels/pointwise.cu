// add, mul and the activations, alone and times a gate's partner: one kernel for every shape.
#include "backend/cuda/check.h"
#include "backend/cuda/device.h"
#include "backend/cuda/kernels/elementwise.cuh"
#include "backend/cuda/kernels/elementwise.h"
#include "backend/cuda/kernels/pointwise_functors.cuh"
#include "backend/pointwise_function.h"

namespace epilogue::cuda {
namespace {

template <class F, int kInputs>
cudaError_t launch_floating(DType dtype, const StridedLoop& loop, LaunchOn on) {
  switch (dtype) {
    case DType::f32:
      return launch_elementwise<F, float, float, kInputs>({}, loop, on);
    case DType::bf16:
      return launch_elementwise<F, __nv_bfloat16, __nv_bfloat16, kInputs>({}, loop, on);
    case DType::f16:
      return launch_elementwise<F, __half, __half, kInputs>({}, loop, on);
    case DType::f64:
      return launch_elementwise<F, double, double, kInputs>({}, loop, on);
    default:
      return cudaErrorInvalidValue;  // infer.cpp lets no integer come this far
  }
}

template <class F>
cudaError_t launch_number(DType dtype, const StridedLoop& loop, LaunchOn on) {
  if (dtype == DType::i32) return launch_elementwise<F, int32_t, int32_t, 2>({}, loop, on);
  if (dtype == DType::i64) return launch_elementwise<F, int64_t, int64_t, 2>({}, loop, on);
  return launch_floating<F, 2>(dtype, loop, on);
}

cudaError_t launch(Pointwise function, DType dtype, const StridedLoop& loop, LaunchOn on) {
  switch (function) {
    case Pointwise::add:
      return launch_number<Add>(dtype, loop, on);
    case Pointwise::mul:
      return launch_number<Mul>(dtype, loop, on);
    case Pointwise::relu:
      return launch_floating<Relu, 1>(dtype, loop, on);
    case Pointwise::silu:
      return launch_floating<Silu, 1>(dtype, loop, on);
    case Pointwise::gelu_tanh:
      return launch_floating<GeluTanh, 1>(dtype, loop, on);
    case Pointwise::gelu:
      return launch_floating<Gelu, 1>(dtype, loop, on);
    case Pointwise::silu_mul:
      return launch_floating<SiluMul, 2>(dtype, loop, on);
    case Pointwise::gelu_tanh_mul:
      return launch_floating<GeluTanhMul, 2>(dtype, loop, on);
    case Pointwise::gelu_mul:
      return launch_floating<GeluMul, 2>(dtype, loop, on);
    case Pointwise::count:
      break;
  }
  return cudaErrorInvalidValue;
}

}  // namespace

KernelRan run_pointwise(const KernelCall& call) {
  const Pointwise function = pointwise_function(call.op, call.attrs);
  const StridedLoop loop = StridedLoop::over(call.output, call.inputs);
  EP_CUDA(launch(function, call.output.dtype(), loop, device_of(call.output).launch_on()));
  return {"pointwise"};
}

}  // namespace epilogue::cuda
