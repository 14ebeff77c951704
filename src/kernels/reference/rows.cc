// The definition of the row operators (docs/contract.md), one element at a time.
#include "kernels/rows.h"

#include <bit>
#include <cmath>

#include "numerics/functions.h"

namespace gyre::kernels {
namespace {

constexpr uint32_t kLanes = 64;

float fold_lanes(float (&lanes)[kLanes]) {
  for (uint32_t step = kLanes / 2; step > 0; step /= 2) {
    for (uint32_t l = 0; l < step; ++l) lanes[l] = lanes[l] + lanes[l + step];
  }
  return lanes[0];
}

float sum(const float* x, uint32_t n) {
  float lanes[kLanes] = {};
  for (uint32_t i = 0; i < n; ++i) lanes[i % kLanes] = lanes[i % kLanes] + x[i];
  return fold_lanes(lanes);
}

// The sum of (x - mean)^2; the contract's sum of squares when mean is 0 (x - 0 is x).
float sum_of_squares(const float* x, float mean, uint32_t n) {
  float lanes[kLanes] = {};
  for (uint32_t i = 0; i < n; ++i) {
    const float c = x[i] - mean;
    lanes[i % kLanes] = std::fma(c, c, lanes[i % kLanes]);
  }
  return fold_lanes(lanes);
}

float inverse_deviation(float squares, uint32_t n, float eps) {
  return 1.0f / std::sqrt(squares / static_cast<float>(n) + eps);
}

void rms_norm(const float* x, const float* w, float eps, uint32_t n, float* y) {
  const float r = inverse_deviation(sum_of_squares(x, 0.0f, n), n, eps);
  for (uint32_t i = 0; i < n; ++i) y[i] = w == nullptr ? x[i] * r : (x[i] * r) * w[i];
}

void layer_norm(const float* x, const float* w, const float* b, float eps, uint32_t n, float* y) {
  const float mean = sum(x, n) / static_cast<float>(n);
  const float r = inverse_deviation(sum_of_squares(x, mean, n), n, eps);
  for (uint32_t i = 0; i < n; ++i) {
    const float scaled = w == nullptr ? (x[i] - mean) * r : ((x[i] - mean) * r) * w[i];
    y[i] = b == nullptr ? scaled : scaled + b[i];
  }
}

void rope(float* x, uint32_t heads, uint32_t head_dim, uint32_t pairs, RopeStyle style,
          const float* cosine, const float* sine) {
  const bool halves = style == RopeStyle::halves;
  for (uint32_t h = 0; h < heads; ++h, x += head_dim) {
    for (uint32_t i = 0; i < pairs; ++i) {
      float& first = halves ? x[i] : x[2 * i];
      float& second = halves ? x[i + pairs] : x[2 * i + 1];
      const float x0 = first, x1 = second, c = cosine[i], s = sine[i];
      first = std::fma(x0, c, -(x1 * s));
      second = std::fma(x0, s, x1 * c);
    }
  }
}

float activate(Activation act, float g) {
  switch (act) {
    case Activation::silu:
      return numerics::silu(g);
    case Activation::gelu_tanh:
      return numerics::gelu(g);
    case Activation::gelu_erf:
      return numerics::gelu_erf(g);
    case Activation::gelu_quick:
      return numerics::gelu_quick(g);
    case Activation::relu:
      return g < 0.0f ? 0.0f : g;  // a NaN stays
    case Activation::identity:
      return g;
  }
  return g;
}

void glu(Activation act, const float* gate, const float* up, uint32_t n, float* y) {
  for (uint32_t i = 0; i < n; ++i) y[i] = activate(act, gate[i]) * up[i];
}

void add(const float* a, const float* b, uint32_t n, float* y) {
  for (uint32_t i = 0; i < n; ++i) y[i] = a[i] + b[i];
}

void scale(const float* x, float factor, uint32_t n, float* y) {
  for (uint32_t i = 0; i < n; ++i) y[i] = x[i] * factor;
}

void softcap(const float* x, float cap, uint32_t n, float* y) {
  for (uint32_t i = 0; i < n; ++i) y[i] = cap * numerics::tanh(x[i] / cap);
}

bool all_finite(const float* x, uint32_t n) {
  for (uint32_t i = 0; i < n; ++i) {
    if ((std::bit_cast<uint32_t>(x[i]) & 0x7f800000) == 0x7f800000) return false;
  }
  return true;
}

}  // namespace

extern const RowOps reference_row_ops;
const RowOps reference_row_ops = {rms_norm, layer_norm, rope, glu, add, scale, softcap, all_finite};

}  // namespace gyre::kernels
