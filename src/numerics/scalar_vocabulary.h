// The words that functions.inl is written in, for one float. Each instruction set defines the same
// words for its vectors (kernels/cpu/isa), found in the namespace that includes functions.inl.
//
// F: floats; I: 32-bit integers, wrapping; M: a mask. Every word acts lane by lane:
//   F::splat(float), I::splat(int32_t)   the same value in every lane
//   a + b, a - b, a * b, a / b, -a       on F: one IEEE operation, round to nearest even; -a flips
//                                        the sign bit (also of zeros and NaN)
//   fma(a, b, c)                         a * b + c with one rounding, exact product
//   less(a, b), equal(a, b) -> M         IEEE order: false when either is NaN; -0 equals +0
//   select(m, a, b)                      a where m, else b (F only)
//   bits(F) -> I, from_bits(I) -> F      the same 32 bits
//   a + b, a - b, a & b, a | b           on I: modulo 2^32
//   shift_left<n>(I), shift_right<n>(I)  logical: zeros move in
// Nothing else is used: no min, max, conversion or rounding instruction, whose rules for NaN and
// ties differ between instruction sets. Words must be inline; they keep subnormals and need
// the contract's environment (base/fp_env.h).
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace gyre::numerics::scalar {

struct Int {
  int32_t value;
  static Int splat(int32_t x) { return {x}; }
};
struct Float {
  float value;
  static Float splat(float x) { return {x}; }
};
using Mask = bool;

inline Float operator+(Float a, Float b) {
  return {a.value + b.value};
}
inline Float operator-(Float a, Float b) {
  return {a.value - b.value};
}
inline Float operator*(Float a, Float b) {
  return {a.value * b.value};
}
inline Float operator/(Float a, Float b) {
  return {a.value / b.value};
}
inline Float operator-(Float a) {
  return {-a.value};
}
inline Float fma(Float a, Float b, Float c) {
  return {std::fma(a.value, b.value, c.value)};
}
inline Mask less(Float a, Float b) {
  return a.value < b.value;
}
inline Mask equal(Float a, Float b) {
  return a.value == b.value;
}
inline Int bits(Float a) {
  return {std::bit_cast<int32_t>(a.value)};
}
inline Float from_bits(Int a) {
  return {std::bit_cast<float>(a.value)};
}

inline uint32_t word(Int a) {
  return static_cast<uint32_t>(a.value);
}
inline Int from_word(uint32_t a) {
  return {static_cast<int32_t>(a)};
}
inline Int operator+(Int a, Int b) {
  return from_word(word(a) + word(b));
}
inline Int operator-(Int a, Int b) {
  return from_word(word(a) - word(b));
}
inline Int operator&(Int a, Int b) {
  return from_word(word(a) & word(b));
}
inline Int operator|(Int a, Int b) {
  return from_word(word(a) | word(b));
}
inline Float select(Mask m, Float a, Float b) {  // without a branch, so that loops vectorise
  const Int mask = from_word(0u - static_cast<uint32_t>(m));
  return from_bits((bits(a) & mask) | (bits(b) & from_word(~word(mask))));
}
template <int n>
inline Int shift_left(Int a) {
  return from_word(word(a) << n);
}
template <int n>
inline Int shift_right(Int a) {
  return from_word(word(a) >> n);
}

}  // namespace gyre::numerics::scalar
