// Rounding to integers and the quantisation of activations: int8 codes in blocks of 32 with one
// f32 scale. Part of the contract: d is amax / 127 with its two lowest mantissa bits cleared, so
// that a kernel may fold the int32 -> f32 conversion of a dot into an exact fma
// (docs/decisions/0003).
#pragma once

#include <cstddef>
#include <cstdint>

namespace gyre::numerics {

inline constexpr size_t kActivationBlock = 32;

// The nearest integer, ties to even, for |x| <= 2^22.
inline int32_t round_half_even(float x) {
  constexpr float magic = 0x1.8p23f;
  return static_cast<int32_t>((x + magic) - magic);
}

// Quantises x[0, n), n <= 32, as one block; codes at and beyond n are 0. `sum` = the codes' sum.
//   amax = largest sign-cleared bit pattern of the block
//   amax < 2^-100: d = 0, q = 0; else d = amax / 127 with two bits cleared,
//   q = round_half_even(x * (127 / amax)) clamped to +-127
// Returns false, with d, sum and all codes 0, if the block holds a NaN or an infinity.
bool quantize_block32(const float* x, size_t n, int8_t* q, float* d, int32_t* sum);

}  // namespace gyre::numerics
