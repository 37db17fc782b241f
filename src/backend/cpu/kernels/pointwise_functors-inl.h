// Per instruction set: what kernels compute of one or two elements, in vectors of f32 or in scalars. Included
// inside Highway's foreach_target, once a target.
#if defined(EPILOGUE_POINTWISE_FUNCTORS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef EPILOGUE_POINTWISE_FUNCTORS_INL_H
#undef EPILOGUE_POINTWISE_FUNCTORS_INL_H
#else
#define EPILOGUE_POINTWISE_FUNCTORS_INL_H
#endif

#include "backend/cpu/kernels/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace epilogue::cpu::HWY_NAMESPACE {

using ::erfc;
using ::exp;
#define EPILOGUE_FN
#include "op/activation-inl.h"
#undef EPILOGUE_FN

struct Add {
  template <class T>
  HWY_INLINE T operator()(T a, T b) const {
    return a + b;
  }
};
struct Mul {
  template <class T>
  HWY_INLINE T operator()(T a, T b) const {
    return a * b;
  }
};
#define EPILOGUE_ACTIVATION(Functor, function)    \
  struct Functor {                                \
    template <class T>                            \
    HWY_INLINE T operator()(T x, T) const {       \
      return function(x);                         \
    }                                             \
  };                                              \
  struct Functor##Mul {                           \
    template <class T>                            \
    HWY_INLINE T operator()(T gate, T up) const { \
      return function(gate) * up;                 \
    }                                             \
  };
EPILOGUE_ACTIVATION(Relu, relu)
EPILOGUE_ACTIVATION(Silu, silu)
EPILOGUE_ACTIVATION(GeluTanh, gelu_tanh)
EPILOGUE_ACTIVATION(Gelu, gelu)
#undef EPILOGUE_ACTIVATION

}  // namespace epilogue::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
