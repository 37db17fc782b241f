// Per instruction set: F32x, a full vector of f32 with operators and the functions that op/activation-inl.h
// asks for, and its loads and stores in the three float formats. Included inside Highway's foreach_target,
// once a target.
#if defined(EPILOGUE_VECTOR_MATH_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef EPILOGUE_VECTOR_MATH_INL_H
#undef EPILOGUE_VECTOR_MATH_INL_H
#else
#define EPILOGUE_VECTOR_MATH_INL_H
#endif

#include <cstdint>

#include <math.h>

#include <hwy/highway.h>

#include "base/half.h"

#undef EPILOGUE_ISA_NAME
#undef EPILOGUE_SCALAR_TARGET
#define EPILOGUE_SCALAR_TARGET (HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128)
#if HWY_TARGET == HWY_AVX3
#define EPILOGUE_ISA_NAME "avx512"
#elif HWY_TARGET == HWY_AVX2
#define EPILOGUE_ISA_NAME "avx2"
#else
#define EPILOGUE_ISA_NAME "scalar"
#endif

HWY_BEFORE_NAMESPACE();
namespace epilogue::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using F32Tag = hn::ScalableTag<float>;
using I32Tag = hn::RebindToSigned<F32Tag>;
using U32Tag = hn::RebindToUnsigned<F32Tag>;

struct F32x {
  hn::Vec<F32Tag> v;

  HWY_INLINE F32x(hn::Vec<F32Tag> vector) : v(vector) {}  // NOLINT: implicit by design
  HWY_INLINE explicit F32x(double value) : v(hn::Set(F32Tag(), static_cast<float>(value))) {}

  friend HWY_INLINE F32x operator+(F32x a, F32x b) { return hn::Add(a.v, b.v); }
  friend HWY_INLINE F32x operator-(F32x a, F32x b) { return hn::Sub(a.v, b.v); }
  friend HWY_INLINE F32x operator*(F32x a, F32x b) { return hn::Mul(a.v, b.v); }
  friend HWY_INLINE F32x operator/(F32x a, F32x b) { return hn::Div(a.v, b.v); }
  friend HWY_INLINE F32x operator-(F32x a) { return hn::Neg(a.v); }
  friend HWY_INLINE hn::Mask<F32Tag> operator<(F32x a, F32x b) { return hn::Lt(a.v, b.v); }
};

HWY_INLINE F32x select(hn::Mask<F32Tag> condition, F32x yes, F32x no) {
  return hn::IfThenElse(condition, yes.v, no.v);
}
HWY_INLINE F32x multiply_add(F32x a, F32x b, F32x c) { return hn::MulAdd(a.v, b.v, c.v); }

// maxps and minps return their second operand when one is NaN; other targets promise nothing.
HWY_INLINE F32x at_least(F32x x, F32x lowest) {
#if EPILOGUE_SCALAR_TARGET
  return select(x < lowest, lowest, x);
#else
  return hn::Max(lowest.v, x.v);
#endif
}
HWY_INLINE F32x at_most(F32x x, F32x highest) {
#if EPILOGUE_SCALAR_TARGET
  return select(highest < x, highest, x);
#else
  return hn::Min(highest.v, x.v);
#endif
}

// x 2^n for whole n in [-150, 128], with infinity and subnormals where they belong.
HWY_INLINE F32x scale_by_power(F32x x, F32x n) {
#if HWY_TARGET == HWY_AVX3
  return hn::Vec<F32Tag>{_mm512_scalef_ps(x.v.raw, n.v.raw)};
#else
  const auto power = [](auto exponent) HWY_ATTR {
    const auto bits = hn::ShiftLeft<23>(hn::Add(exponent, hn::Set(I32Tag(), 127)));
    return F32x(hn::BitCast(F32Tag(), bits));
  };
  const auto whole = hn::ConvertTo(I32Tag(), n.v);
  const auto half = hn::ShiftRight<1>(whole);  // one step alone would leave f32's exponents
  return x * power(half) * power(hn::Sub(whole, half));
#endif
}

// e^x within 1 ulp (2 where the target has no FMA): x = n ln 2 + r, |r| <= ln 2 / 2, a minimax polynomial of
// degree 6 in r (relative error 3e-9), times 2^n. Beyond the bounds f32 has only 0 and infinity.
HWY_INLINE F32x exp(F32x x) {
  x = at_most(at_least(x, F32x(-104.0)), F32x(89.0));
  const F32x shift(12582912.0);  // 1.5 * 2^23: the sum's last bit is one, so adding rounds to a whole number
  const F32x n = multiply_add(x, F32x(1.44269504088896), shift) - shift;
  F32x r = multiply_add(n, F32x(-0.693359375), x);
  r = multiply_add(n, F32x(2.12194440054690583e-4), r);
  F32x p(0.00138144712232);
  p = multiply_add(p, r, F32x(0.00836878068967));
  p = multiply_add(p, r, F32x(0.0416683941487));
  p = multiply_add(p, r, F32x(0.166665201048));
  p = multiply_add(p, r, F32x(0.499999934127));
  p = multiply_add(p, r, F32x(1.0));
  p = multiply_add(p, r, F32x(1.0));
  return scale_by_power(p, n);
}

HWY_INLINE F32x load(const float* from) { return hn::LoadU(F32Tag(), from); }
HWY_INLINE void store(F32x x, float* to) { hn::StoreU(x.v, F32Tag(), to); }

#if EPILOGUE_SCALAR_TARGET

template <class Half>
HWY_INLINE F32x load(const Half* from) {
  float lanes[hn::MaxLanes(F32Tag())];
  for (size_t i = 0; i < hn::MaxLanes(F32Tag()); ++i) lanes[i] = to_f32(from[i]);
  return load(lanes);
}
template <class Half>
HWY_INLINE void store(F32x x, Half* to) {
  float lanes[hn::MaxLanes(F32Tag())];
  store(x, lanes);
  for (size_t i = 0; i < hn::MaxLanes(F32Tag()); ++i) to[i] = from_f32<Half>(lanes[i]);
}

#else

HWY_INLINE F32x load(const Bf16* from) {
  const auto bits = hn::LoadU(hn::Rebind<uint16_t, F32Tag>(), &from->bits);
  return hn::BitCast(F32Tag(), hn::ShiftLeft<16>(hn::PromoteTo(U32Tag(), bits)));
}
HWY_INLINE void store(F32x x, Bf16* to) {
  const U32Tag du;
  const auto bits = hn::BitCast(du, x.v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fff)));
  const auto quiet = hn::Or(bits, hn::Set(du, 0x400000));
  const auto is_nan = hn::RebindMask(du, hn::Ne(x.v, x.v));
  const auto narrow = hn::ShiftRight<16>(hn::IfThenElse(is_nan, quiet, rounded));
  const hn::Rebind<uint16_t, F32Tag> d16;
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(I32Tag(), narrow)), d16, &to->bits);
}

HWY_INLINE F32x load(const F16* from) {
  const hn::Rebind<hwy::float16_t, F32Tag> d16;
  return hn::PromoteTo(F32Tag(), hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(from)));
}
HWY_INLINE void store(F32x x, F16* to) {
  const hn::Rebind<hwy::float16_t, F32Tag> d16;
  hn::StoreU(hn::DemoteTo(d16, x.v), d16, reinterpret_cast<hwy::float16_t*>(to));
}

#endif

}  // namespace epilogue::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
