#include "numerics/rounding.h"

#include <algorithm>
#include <bit>

namespace gyre::numerics {

bool quantize_block32(const float* x, size_t n, int8_t* q, float* d, int32_t* sum) {
  n = std::min(n, kActivationBlock);
  uint32_t largest = 0;
  for (size_t i = 0; i < n; ++i)
    largest = std::max(largest, std::bit_cast<uint32_t>(x[i]) & 0x7fffffffu);
  std::fill(q, q + kActivationBlock, int8_t{0});
  *d = 0.0f;
  *sum = 0;
  if (largest >= 0x7f800000u) return false;
  const float amax = std::bit_cast<float>(largest);
  if (amax < 0x1p-100f) return true;
  *d = std::bit_cast<float>(std::bit_cast<uint32_t>(amax / 127.0f) & ~3u);
  const float inverse = 127.0f / amax;
  for (size_t i = 0; i < n; ++i) {
    const int32_t code = std::clamp(round_half_even(x[i] * inverse), -127, 127);
    q[i] = static_cast<int8_t>(code);
    *sum += code;
  }
  return true;
}

}  // namespace gyre::numerics
