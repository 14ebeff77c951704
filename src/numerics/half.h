// The two 16-bit float formats, as raw bits in uint16_t. Scalar and exact: the truth that every
// vector conversion must equal. Rounding is to nearest even; subnormals are kept; NaN stays NaN
// (quiet, upper payload bits and sign kept). No state, any thread.
#pragma once

#include <bit>
#include <cstdint>

namespace gyre {

constexpr float f16_to_f32(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000) << 16;
  const uint32_t exponent = (h >> 10) & 0x1f;
  const uint32_t fraction = h & 0x3ff;
  if (exponent == 0x1f)  // Inf, NaN
    return std::bit_cast<float>(sign | 0x7f800000 | (fraction << 13) |
                                (fraction != 0 ? 0x400000u : 0u));
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
  const float magnitude = static_cast<float>(fraction) * 0x1p-24f;  // exact; zero and subnormals
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

constexpr uint16_t f32_to_f16(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000)
    return static_cast<uint16_t>(sign | 0x7e00 | ((magnitude >> 13) & 0x3ff));
  if (magnitude >= 0x477ff000) return sign | 0x7c00;  // 65520 and more round to Inf
  if (magnitude >= 0x38800000) {                      // normal in f16: 2^-14 and more
    const uint32_t rebased = magnitude - (112u << 23);
    return static_cast<uint16_t>(sign | ((rebased + 0xfff + ((rebased >> 13) & 1)) >> 13));
  }
  if (magnitude < 0x33000000) return sign;         // below 2^-25: nearest is zero
  const uint32_t shift = 126 - (magnitude >> 23);  // 14 .. 24
  const uint32_t fraction = (magnitude & 0x7fffff) | 0x800000;
  const uint32_t whole = fraction >> shift;
  const uint32_t rest = fraction & ((1u << shift) - 1);
  const uint32_t half = 1u << (shift - 1);
  return static_cast<uint16_t>(sign | (whole + (rest > half || (rest == half && (whole & 1)))));
}

constexpr float bf16_to_f32(uint16_t h) {
  return std::bit_cast<float>(static_cast<uint32_t>(h) << 16);
}

constexpr uint16_t f32_to_bf16(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// The contract's operand of a bf16 dot: rounded, then what is smaller than 2^-56 becomes +0, so
// that no product or sum of operands is subnormal (docs/contract.md).
constexpr uint16_t f32_to_bf16_operand(float x) {
  const uint16_t h = f32_to_bf16(x);
  return (h & 0x7fff) < 0x2380 ? uint16_t{0} : h;
}

}  // namespace gyre
