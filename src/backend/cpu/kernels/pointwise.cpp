#include "backend/cpu/isa.h"  // first: it chooses Highway's targets

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/pointwise.cpp"
#include <algorithm>

#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include "backend/cpu/kernels/pointwise.h"
#include "backend/cpu/kernels/pointwise_functors-inl.h"
#include "base/check.h"

HWY_BEFORE_NAMESPACE();
namespace epilogue::cpu::HWY_NAMESPACE {

// E is an element of memory: float, Bf16 or F16, computed in vectors of f32. kInputs is 1 or 2.
template <class F, int kInputs, class E>
void vector_row(void* out, const void* a, const void* b, int64_t n) {
  constexpr F function;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(F32Tag()));
  const E* x = static_cast<const E*>(a);
  const E* y = kInputs == 2 ? static_cast<const E*>(b) : x;
  E* z = static_cast<E*>(out);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) store(function(load(x + i), load(y + i)), z + i);
  if (i == n) return;
  E rest[3][hn::MaxLanes(F32Tag())] = {};
  const size_t bytes = static_cast<size_t>(n - i) * sizeof(E);
  memcpy(rest[0], x + i, bytes);
  memcpy(rest[1], y + i, bytes);
  store(function(load(rest[0]), load(rest[1])), rest[2]);
  memcpy(z + i, rest[2], bytes);
}

// The same for f32 with stores that pass the caches by.
template <class F, int kInputs>
void streaming_row(void* out, const void* a, const void* b, int64_t n) {
  constexpr F function;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(F32Tag()));
  const float* x = static_cast<const float*>(a);
  const float* y = kInputs == 2 ? static_cast<const float*>(b) : x;
  float* z = static_cast<float*>(out);
  const auto misplaced = static_cast<int64_t>(reinterpret_cast<uintptr_t>(z) / sizeof(float)) % lanes;
  int64_t i = std::min(n, (lanes - misplaced) % lanes);
  vector_row<F, kInputs, float>(z, x, y, i);
  for (; i + lanes <= n; i += lanes) hn::Stream(function(load(x + i), load(y + i)).v, F32Tag(), z + i);
  vector_row<F, kInputs, float>(z + i, x + i, y + i, n - i);
  hwy::FlushStream();  // before another thread is told that it is done
}

// E is double, or an unsigned integer: signed ones wrap as those do.
template <class F, int kInputs, class E>
void scalar_row(void* out, const void* a, const void* b, int64_t n) {
  constexpr F function;
  const E* x = static_cast<const E*>(a);
  const E* y = kInputs == 2 ? static_cast<const E*>(b) : x;
  E* z = static_cast<E*>(out);
  for (int64_t i = 0; i < n; ++i) z[i] = function(x[i], y[i]);
}

#define EPILOGUE_FLOATS(name, F, inputs)                                               \
  {"pointwise_" name "_" EPILOGUE_ISA_NAME "_f32", &vector_row<F, inputs, float>,      \
   &streaming_row<F, inputs>},                                                         \
      {"pointwise_" name "_" EPILOGUE_ISA_NAME "_bf16", &vector_row<F, inputs, Bf16>}, \
      {"pointwise_" name "_" EPILOGUE_ISA_NAME "_f16", &vector_row<F, inputs, F16>}, { \
    "pointwise_" name "_" EPILOGUE_ISA_NAME "_f64", &scalar_row<F, inputs, double>     \
  }
#define EPILOGUE_NUMBERS(name, F, inputs)                                                   \
  EPILOGUE_FLOATS(name, F, inputs),                                                         \
      {"pointwise_" name "_" EPILOGUE_ISA_NAME "_i32", &scalar_row<F, inputs, uint32_t>}, { \
    "pointwise_" name "_" EPILOGUE_ISA_NAME "_i64", &scalar_row<F, inputs, uint64_t>        \
  }

// Rows in the order of Pointwise, columns in that of DType.
PointwiseKernel find_kernel(Pointwise function, DType dtype) {
  static constexpr PointwiseKernel kKernels[static_cast<size_t>(Pointwise::count)][6] = {
      {EPILOGUE_NUMBERS("add", Add, 2)},           {EPILOGUE_NUMBERS("mul", Mul, 2)},
      {EPILOGUE_FLOATS("relu", Relu, 1)},          {EPILOGUE_FLOATS("silu", Silu, 1)},
      {EPILOGUE_FLOATS("gelu_tanh", GeluTanh, 1)}, {EPILOGUE_FLOATS("gelu", Gelu, 1)},
      {EPILOGUE_FLOATS("silu_mul", SiluMul, 2)},   {EPILOGUE_FLOATS("gelu_tanh_mul", GeluTanhMul, 2)},
      {EPILOGUE_FLOATS("gelu_mul", GeluMul, 2)},
  };
  return kKernels[static_cast<size_t>(function)][static_cast<size_t>(dtype)];
}
#undef EPILOGUE_FLOATS
#undef EPILOGUE_NUMBERS

}  // namespace epilogue::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace epilogue::cpu {
HWY_EXPORT(find_kernel);

PointwiseKernel pointwise_kernel(Pointwise function, DType dtype) {
  apply_isa_cap();
  return HWY_DYNAMIC_DISPATCH(find_kernel)(function, dtype);
}

namespace {

// A larger result goes to memory without being read first, and leaves the last cache to the weights of the
// next product. 1024x3072 in f32 on two Ice Lake cores (48 MB of L3, shared with others): mul 1.05 ms instead
// of 1.3, gelu_tanh 0.96 instead of 1.1 (epilogue profile mlp --batch 1024 --seq 1 --mode eager).
constexpr int64_t kStreamedBytes = 8 << 20;

bool passes_caches(const StridedLoop& loop) {
  bool side_by_side = loop.dims == 1;
  for (int o = 0; o < loop.operands; ++o)
    side_by_side &= loop.operand[o].strides[0] == loop.operand[o].element_size;
  return side_by_side && loop.numel() * loop.operand[0].element_size > kStreamedBytes;
}

}  // namespace

KernelRan run_pointwise(const KernelCall& call) {
  const DType dtype = call.output.dtype();
  const PointwiseKernel kernel = pointwise_kernel(pointwise_function(call.op, call.attrs), dtype);
  EP_CHECK(kernel.row, "{}: expected a floating dtype, got {}", op_row(call.op).name, dtype_name(dtype));
  const StridedLoop loop = StridedLoop::over(call.output, call.inputs);
  const bool streams = kernel.streaming && passes_caches(loop);
  return {kernel.name, run_rows(loop, streams ? kernel.streaming : kernel.row)};
}

}  // namespace epilogue::cpu
#endif
