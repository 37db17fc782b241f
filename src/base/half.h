// The 16-bit floating formats as bits: exact widening, narrowing to nearest even. NaN stays NaN.
#pragma once

#include <bit>
#include <cstdint>

namespace epilogue {

inline float f32_from_bf16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

inline uint16_t bf16_from_f32(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

inline float f32_from_f16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16, magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u)  // infinity and NaN, which becomes quiet as the hardware makes it
    return std::bit_cast<float>(sign | 0x7f800000u | (magnitude << 13) |
                                (magnitude > 0x7c00u ? 0x400000u : 0u));
  // Moving the fields into place leaves the exponent 112 too small; the product also normalizes subnormals.
  const float value = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
}

inline uint16_t f16_from_f32(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value), magnitude = bits & 0x7fffffffu;
  const uint32_t sign = (bits >> 16) & 0x8000u;
  uint32_t half;
  if (magnitude > 0x7f800000u) {
    half = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  } else if (magnitude >= 0x477ff000u) {  // 65520 and more round to infinity
    half = 0x7c00u;
  } else if (magnitude < 0x38800000u) {  // below 2^-14: the addition rounds to a multiple of 2^-24
    half = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  } else {
    half = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  }
  return static_cast<uint16_t>(sign | half);
}

// An element of each format in memory.
struct Bf16 {
  uint16_t bits;
};
struct F16 {
  uint16_t bits;
};

inline float to_f32(Bf16 value) { return f32_from_bf16(value.bits); }
inline float to_f32(F16 value) { return f32_from_f16(value.bits); }

template <class Half>
Half from_f32(float value);
template <>
inline Bf16 from_f32<Bf16>(float value) {
  return {bf16_from_f32(value)};
}
template <>
inline F16 from_f32<F16>(float value) {
  return {f16_from_f32(value)};
}

}  // namespace epilogue
