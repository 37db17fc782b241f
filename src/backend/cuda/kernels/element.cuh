// Elements of tensors in device code: what they are computed in, and the way there and back.
#pragma once

#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace epilogue::cuda {

// f32 computed with the special-function unit's exp and quotient, relative error about 2^-21: for 16-bit
// elements, whose own rounding is a thousand times that. Has what op/activation-inl.h asks of a type.
struct QuickFloat {
  float value;
  __device__ explicit QuickFloat(float v) : value(v) {}
  __device__ explicit QuickFloat(double v) : value(static_cast<float>(v)) {}
};
__device__ inline QuickFloat operator+(QuickFloat a, QuickFloat b) { return QuickFloat(a.value + b.value); }
__device__ inline QuickFloat operator-(QuickFloat a, QuickFloat b) { return QuickFloat(a.value - b.value); }
__device__ inline QuickFloat operator-(QuickFloat a) { return QuickFloat(-a.value); }
__device__ inline QuickFloat operator*(QuickFloat a, QuickFloat b) { return QuickFloat(a.value * b.value); }
// A quotient by infinity is 0, which is what the activations need far from zero.
__device__ inline QuickFloat operator/(QuickFloat a, QuickFloat b) {
  float reciprocal;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(reciprocal) : "f"(b.value));
  return QuickFloat(a.value * reciprocal);
}
__device__ inline bool operator<(QuickFloat a, QuickFloat b) { return a.value < b.value; }
__device__ inline QuickFloat exp(QuickFloat a) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(a.value * 1.4426950408889634f));
  return QuickFloat(power);
}

// Wide is what sums are taken in, Computed what an activation is computed in.
template <class T>
struct Element {
  using Wide = T;
  using Computed = T;
};
template <>
struct Element<__nv_bfloat16> {
  using Wide = float;
  using Computed = QuickFloat;
};
template <>
struct Element<__half> {
  using Wide = float;
  using Computed = QuickFloat;
};

template <class T>
__device__ inline T widen(T value) {
  return value;
}
__device__ inline float widen(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ inline float widen(__half value) { return __half2float(value); }

// Rounds to nearest even; floating numbers become the nearest integer toward zero, NaN becomes 0.
template <class To, class From>
__device__ inline To narrow(From value) {
  if constexpr (std::is_same_v<From, QuickFloat>)
    return narrow<To>(value.value);
  else if constexpr (std::is_same_v<To, __nv_bfloat16>)
    return __float2bfloat16_rn(static_cast<float>(value));
  else if constexpr (std::is_same_v<To, __half>)
    return __float2half_rn(static_cast<float>(value));
  else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>)
    return value == value ? static_cast<To>(value) : To{0};
  else
    return static_cast<To>(value);
}

}  // namespace epilogue::cuda
