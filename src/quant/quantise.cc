#include "quant/quantise.h"

#include <algorithm>
#include <cmath>

#include "quant/format.h"

namespace gyre::quant {

// Truncation clamped to the code range; NaN (0 times an infinite reciprocal) is 0.
static uint8_t to_code(float t, int code_max) {
  if (!(t > 0)) return 0;
  return static_cast<uint8_t>(t >= static_cast<float>(code_max) ? code_max : static_cast<int>(t));
}

void quantise_by_extreme(const float* x, int zero, Codes& out) {
  float extreme = x[0];
  for (int k = 1; k < 32; ++k) {
    if (std::fabs(x[k]) > std::fabs(extreme)) extreme = x[k];
  }
  out.scale = extreme / static_cast<float>(-zero);
  const float inverse = out.scale == 0 ? 0 : 1 / out.scale;
  const float offset = static_cast<float>(zero) + 0.5f;
  for (int k = 0; k < 32; ++k) out.code[k] = to_code(x[k] * inverse + offset, 2 * zero - 1);
}

void quantise_by_range(const float* x, int code_max, Codes& out) {
  const auto [low, high] = std::minmax_element(x, x + 32);
  out.min = *low;
  out.scale = (*high - *low) / static_cast<float>(code_max);
  const float inverse = out.scale == 0 ? 0 : 1 / out.scale;
  for (int k = 0; k < 32; ++k) out.code[k] = to_code((x[k] - out.min) * inverse + 0.5f, code_max);
}

}  // namespace gyre::quant
