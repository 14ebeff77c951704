// Inside of quant/: choosing the codes of a block of floats, where formats share the way.
//
// The first two do what the gguf package does, operation for operation in f32. The others search
// for the least squared error: candidate scales, least squares over the codes they give, then the
// neighbours of each rounded sub scale. Sums are double; inputs must be finite.
#pragma once

#include <algorithm>
#include <cmath>

#include "quant/format.h"

namespace gyre::quant {

// 32 values, code = x / scale + zero, where the value of largest magnitude becomes code 0.
void quantise_by_extreme(const float* x, int zero, Codes& out);
// 32 values, code = (x - min) / scale, where the largest becomes code_max.
void quantise_by_range(const float* x, int code_max, Codes& out);

// The weights that codes stand for, in units of the scale: every integer from lo to hi, or a
// codebook of 16 ascending register codes.
struct Levels {
  int lo, hi, zero;
  const uint8_t* codebook = nullptr;
};

inline constexpr Levels kIq4Levels{-127, 113, 128, kIq4Codes};

// Scale candidates of a search, 0.7 to 1.24 times the plain choice.
inline constexpr int kCandidates = 28;
inline double candidate(int i) {
  return 0.7 + 0.02 * i;
}

// The nearest finite f16, and the nearest integer of a range.
inline float round_to_f16(double x) {
  return f16_to_f32(f32_to_f16(static_cast<float>(std::clamp(x, -65504.0, 65504.0))));
}
inline int round_clamped(double t, int lo, int hi) {
  return static_cast<int>(std::nearbyint(std::clamp<double>(t, lo, hi)));
}

void search_scaled(const Levels& levels, const float* x, Codes& out);  // 32 values
// 256 values; sub_lo is the sub scale that the widest group gets (the range's far end).
void search_super(const Levels& levels, uint32_t group, int sub_lo, int sub_hi, const float* x,
                  Codes& out);
// 256 values with minima; sub scales and minima reach from 0 to sub_max.
void search_super_with_min(uint32_t group, int code_max, int sub_max, const float* x, Codes& out);

}  // namespace gyre::quant
