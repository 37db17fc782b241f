// Per instruction set: sums of f32 plus the products of two neighbours in depth, as AVX512-BF16 adds them.
// Included inside Highway's foreach_target, once a target.
#if defined(EPILOGUE_BF16_PAIRS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef EPILOGUE_BF16_PAIRS_INL_H
#undef EPILOGUE_BF16_PAIRS_INL_H
#else
#define EPILOGUE_BF16_PAIRS_INL_H
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace epilogue::cpu::HWY_NAMESPACE {

// A lane of x and w holds two numbers of bf16, the first in its lower half.
using PairSums = hwy::HWY_NAMESPACE::Vec<hwy::HWY_NAMESPACE::ScalableTag<float>>;
using Pairs = hwy::HWY_NAMESPACE::Vec<hwy::HWY_NAMESPACE::ScalableTag<uint32_t>>;

// By Highway's multiply-adds: the same but for denormals, which the instruction takes as 0.
struct EmulatedPairs {
  static HWY_INLINE PairSums add_products(PairSums sum, Pairs x, Pairs w) {
    namespace hn = hwy::HWY_NAMESPACE;
    const hn::ScalableTag<float> d;
    const hn::ScalableTag<uint32_t> du;
    const auto upper = hn::Set(du, 0xffff0000);
    const auto odd = [&](Pairs pairs) HWY_ATTR { return hn::BitCast(d, hn::And(pairs, upper)); };
    const auto even = [&](Pairs pairs) HWY_ATTR { return hn::BitCast(d, hn::ShiftLeft<16>(pairs)); };
    return hn::MulAdd(even(x), even(w), hn::MulAdd(odd(x), odd(w), sum));
  }
};

#if HWY_TARGET == HWY_AVX3
// In assembly, as Highway's target does not ask for AVX512-BF16. To be run where uses_avx512_bf16().
struct NativePairs {
  static HWY_INLINE PairSums add_products(PairSums sum, Pairs x, Pairs w) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum.raw) : "v"(x.raw), "v"(w.raw));
    return sum;
  }
};
#else
using NativePairs = EmulatedPairs;  // never run
#endif

}  // namespace epilogue::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
