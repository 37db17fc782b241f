// What a product goes through before it is stored: bias, optional rounding to the dtype, activation, gate.
// All in f32.
#pragma once

#include <epilogue/ops.h>

#include "backend/cuda/kernels/activation.cuh"
#include "backend/cuda/kernels/sm90.cuh"

namespace epilogue::cuda {

template <Act act>
__device__ __forceinline__ float activated(float x) {
  const QuickFloat f(x);
  if constexpr (act == Act::relu) return relu(f).value;
  if constexpr (act == Act::silu) return silu(f).value;
  if constexpr (act == Act::gelu_tanh) return gelu_tanh(f).value;
  if constexpr (act == Act::gelu) return gelu(f).value;
  return x;
}

// As activated, chosen at run time, a branch for each value.
__device__ __forceinline__ float activated(Act act, float x) {
  if (act == Act::relu) return activated<Act::relu>(x);
  if (act == Act::silu) return activated<Act::silu>(x);
  if (act == Act::gelu_tanh) return activated<Act::gelu_tanh>(x);
  if (act == Act::gelu) return activated<Act::gelu>(x);
  return x;
}

// Calls `body` with the activation as a compile-time constant: one branch per tile, not one per value.
template <class Body>
__device__ __forceinline__ void with_activation(Act act, Body&& body) {
  switch (act) {
    case Act::relu:
      body.template operator()<Act::relu>();
      break;
    case Act::silu:
      body.template operator()<Act::silu>();
      break;
    case Act::gelu_tanh:
      body.template operator()<Act::gelu_tanh>();
      break;
    case Act::gelu:
      body.template operator()<Act::gelu>();
      break;
    case Act::none:
      body.template operator()<Act::none>();
      break;
  }
}

// The epilogue's operands as the kernels pass them. Biases are of the matrices' dtype, 4-byte aligned, or
// null.
struct EpilogueArguments {
  const void* gate_bias;  // or the only bias
  const void* up_bias;
  Act act;
  bool exact;  // round gate and up to the dtype before the activation, as unfused frameworks do
};

template <class T>
__device__ __forceinline__ float2 rounded(float2 v) {
  return sm90::unpack(sm90::pack(v.x, v.y, T{}), T{});
}

// Sums with their biases as `exact` wants them, before what is common to all follows.
template <class T, int count>
__device__ __forceinline__ void round_all(float2 (&v)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i) v[i] = rounded<T>(v[i]);
}

// Two neighbouring columns' outputs; `up` is not read when there is no gate.
template <Act act, bool gated>
__device__ __forceinline__ float2 combined(float2 gate, float2 up) {
  float2 out = make_float2(activated<act>(gate.x), activated<act>(gate.y));
  if constexpr (gated) out.x *= up.x, out.y *= up.y;
  return out;
}

// The same from sums of products, with everything before the activation.
template <class T, Act act, bool gated>
__device__ __forceinline__ float2 finished(float2 gate, float2 up, float2 gate_bias, float2 up_bias,
                                           bool exact) {
  gate.x += gate_bias.x, gate.y += gate_bias.y;
  if constexpr (gated) up.x += up_bias.x, up.y += up_bias.y;
  if (exact) {
    gate = rounded<T>(gate);
    if constexpr (gated) up = rounded<T>(up);
  }
  return combined<act, gated>(gate, up);
}

// Columns `column` and `column + 1` of a bias, 0 where `present` is false. Predicated rather than branched:
// branches between the activations would keep the compiler from overlapping them.
template <class T>
__device__ __forceinline__ float2 bias_pair(const void* bias, int column, bool present) {
  uint32_t v;
  asm("{\n.reg .pred p;\nsetp.ne.s32 p, %2, 0;\nmov.u32 %0, 0;\n@p ld.global.nc.u32 %0, [%1];\n}"
      : "=r"(v)
      : "l"(static_cast<const uint16_t*>(bias) + column), "r"(static_cast<int>(present)));
  return sm90::unpack(v, T{});
}
template <class T>
__device__ __forceinline__ float2 bias_pair(const void* bias, int column) {
  return bias_pair<T>(bias, column, bias != nullptr);
}

}  // namespace epilogue::cuda
