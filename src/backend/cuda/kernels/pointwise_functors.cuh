// What pointwise kernels compute, element by element: F::apply of elementwise.cuh. Shared with packages/geglu, so that its
// kernels give the built-in ones' bits.
#pragma once

#include <type_traits>

#include "backend/cuda/kernels/activation.cuh"

namespace epilogue::cuda {

template <class In>
__device__ typename Element<In>::Computed computed(In value) {
  return typename Element<In>::Computed(widen(value));
}

struct Add {
  template <class Out, class In>
  __device__ Out apply(In a, In b) const {
    if constexpr (std::is_integral_v<In>)
      return static_cast<Out>(static_cast<std::make_unsigned_t<In>>(a) +
                              static_cast<std::make_unsigned_t<In>>(b));
    else
      return narrow<Out>(widen(a) + widen(b));
  }
};

struct Mul {
  template <class Out, class In>
  __device__ Out apply(In a, In b) const {
    if constexpr (std::is_integral_v<In>)
      return static_cast<Out>(static_cast<std::make_unsigned_t<In>>(a) *
                              static_cast<std::make_unsigned_t<In>>(b));
    else
      return narrow<Out>(widen(a) * widen(b));
  }
};

#define EPILOGUE_ACTIVATION(Name, function)                    \
  struct Name {                                                \
    template <class Out, class In>                             \
    __device__ Out apply(In a, In) const {                     \
      return narrow<Out>(function(computed(a)));               \
    }                                                          \
  };                                                           \
  struct Name##Mul {                                           \
    template <class Out, class In>                             \
    __device__ Out apply(In a, In b) const {                   \
      return narrow<Out>(function(computed(a)) * computed(b)); \
    }                                                          \
  };
EPILOGUE_ACTIVATION(Relu, relu)
EPILOGUE_ACTIVATION(Silu, silu)
EPILOGUE_ACTIVATION(GeluTanh, gelu_tanh)
EPILOGUE_ACTIVATION(Gelu, gelu)
#undef EPILOGUE_ACTIVATION

}  // namespace epilogue::cuda
