#include "backend/cpu/isa.h"  // first: it chooses Highway's targets

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/copy.cpp"
#include <limits>
#include <type_traits>

#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include "backend/cpu/kernels/copy.h"
#include "backend/cpu/kernels/vector_math-inl.h"
#include "base/check.h"

HWY_BEFORE_NAMESPACE();
namespace epilogue::cpu::HWY_NAMESPACE {

template <class E>
constexpr bool is_half = std::is_same_v<E, Bf16> || std::is_same_v<E, F16>;
template <class E>
constexpr bool is_vectorized = is_half<E> || std::is_same_v<E, float>;

template <class Integer, class Float>
HWY_INLINE Integer truncate(Float value) {
  constexpr Float bound = static_cast<Float>(uint64_t{1} << (sizeof(Integer) * 8 - 1));
  if (value >= bound) return std::numeric_limits<Integer>::max();
  if (value < -bound) return std::numeric_limits<Integer>::min();
  return value == value ? static_cast<Integer>(value) : Integer{0};
}

template <class To, class From>
HWY_INLINE To convert(From value) {
  if constexpr (is_half<From>)
    return convert<To>(to_f32(value));
  else if constexpr (is_half<To>)
    return from_f32<To>(static_cast<float>(value));
  else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>)
    return truncate<To>(value);
  else
    return static_cast<To>(value);
}

template <class From, class To>
void convert_row(void* out, const void* in, const void*, int64_t n) {
  const From* from = static_cast<const From*>(in);
  To* to = static_cast<To*>(out);
  int64_t i = 0;
  if constexpr (std::is_same_v<From, To>) {
    memcpy(to, from, static_cast<size_t>(n) * sizeof(To));
    return;
  } else if constexpr (is_vectorized<From> && is_vectorized<To>) {
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(F32Tag()));
    for (; i + lanes <= n; i += lanes) store(load(from + i), to + i);
  }
  for (; i < n; ++i) to[i] = convert<To>(from[i]);
}

#define EPILOGUE_COPY(from, From, to, To) \
  { "copy_" from "_" to "_" EPILOGUE_ISA_NAME, &convert_row<From, To> }
#define EPILOGUE_COPIES(from, From)                                                          \
  {                                                                                          \
    EPILOGUE_COPY(from, From, "f32", float), EPILOGUE_COPY(from, From, "bf16", Bf16),        \
        EPILOGUE_COPY(from, From, "f16", F16), EPILOGUE_COPY(from, From, "f64", double),     \
        EPILOGUE_COPY(from, From, "i32", int32_t), EPILOGUE_COPY(from, From, "i64", int64_t) \
  }

// Rows and columns in the order of DType.
CopyKernel find_kernel(DType from, DType to) {
  static constexpr CopyKernel kKernels[6][6] = {
      EPILOGUE_COPIES("f32", float),  EPILOGUE_COPIES("bf16", Bf16),   EPILOGUE_COPIES("f16", F16),
      EPILOGUE_COPIES("f64", double), EPILOGUE_COPIES("i32", int32_t), EPILOGUE_COPIES("i64", int64_t),
  };
  return kKernels[static_cast<size_t>(from)][static_cast<size_t>(to)];
}
#undef EPILOGUE_COPY
#undef EPILOGUE_COPIES

}  // namespace epilogue::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace epilogue::cpu {

HWY_EXPORT(find_kernel);

CopyKernel copy_kernel(DType from, DType to) {
  apply_isa_cap();
  return HWY_DYNAMIC_DISPATCH(find_kernel)(from, to);
}

KernelRan run_copy(const KernelCall& call) {
  const std::span<const Tensor> source = call.inputs.last(1);
  const CopyKernel kernel = copy_kernel(source[0].dtype(), call.output.dtype());
  return {kernel.name, run_rows(StridedLoop::over(call.output, source), kernel.row)};
}

KernelRan run_fill(const KernelCall& call) {
  static constexpr const char* kNames[] = {"fill_f32", "fill_bf16", "fill_f16",
                                           "fill_f64", "fill_i32",  "fill_i64"};
  const DType dtype = call.output.dtype();
  alignas(8) char element[8];
  copy_kernel(DType::f64, dtype).row(element, &call.attrs.value, nullptr, 1);
  StridedLoop loop = StridedLoop::over(call.output, {});
  loop.operands = 2;
  loop.operand[1] = {.data = element, .element_size = loop.operand[0].element_size, .strides = {}};
  return {kNames[static_cast<size_t>(dtype)], run_rows(loop, copy_kernel(dtype, dtype).row)};
}

}  // namespace epilogue::cpu
#endif
