// A recurrent mixer for tests, shaped like a gated delta net: a short convolution, then for each
// head S = alpha S + (beta (v - alpha S k)) k^T and the output S q.
//
// Sums over the key dimension run in four fma chains (i mod 4), then (0 + 2) + (1 + 3); taps oldest
// first. Inputs are a pure function of a token's id.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "kv/recurrent.h"
#include "numerics/philox.h"

namespace gyre::kv {

struct ToyMixer {
  uint32_t heads = 1, v_dim = 4, k_dim = 4, taps = 3;

  uint32_t head_dim() const { return 2 * k_dim + v_dim; }  // q, k, v
  RecurrentShape shape() const {
    const uint32_t conv_dim = heads * head_dim();
    return {taps, conv_dim, heads, v_dim, k_dim, conv_dim + 2 * heads};
  }

  // [conv_dim] values in (-1, 1), then for each head alpha in (0.5, 1) and beta in (0, 1).
  std::vector<float> input(uint32_t id) const {
    const RecurrentShape sizes = shape();
    std::vector<float> out(sizes.input_floats);
    for (uint32_t i = 0; i < out.size(); ++i) {
      const auto bits = numerics::philox4x32({id, i, 0, 0}, {7, 7})[0] >> 8;
      const float unit = (static_cast<float>(bits) + 0.5f) / 16777216.0f;
      if (i < sizes.conv_dim) {
        out[i] = 2 * unit - 1;
      } else {
        out[i] = i % 2 == sizes.conv_dim % 2 ? 0.5f + unit / 2 : unit;
      }
    }
    return out;
  }

  float dot(const float* a, const float* b, float scale) const {
    float chain[4] = {};
    for (uint32_t i = 0; i < k_dim; ++i) chain[i % 4] = std::fma(scale * a[i], b[i], chain[i % 4]);
    return (chain[0] + chain[2]) + (chain[1] + chain[3]);
  }

  // Appends heads * v_dim values to *out where it is given.
  bool mix(const RecurrentToken& token, std::vector<float>* out) const {
    const uint32_t conv_dim = heads * head_dim();
    std::vector<float> mixed(conv_dim);
    for (uint32_t c = 0; c < conv_dim; ++c) {
      float s = 0;
      for (uint32_t t = 0; t < taps; ++t)
        s = std::fma(0.25f + 0.125f * static_cast<float>(t), token.conv_before[t * conv_dim + c],
                     s);
      mixed[c] = std::fma(0.75f, token.input[c], s);
    }
    for (uint32_t t = 0; t < taps; ++t) {
      for (uint32_t c = 0; c < conv_dim; ++c)
        token.conv_after[t * conv_dim + c] =
            t + 1 < taps ? token.conv_before[(t + 1) * conv_dim + c] : token.input[c];
    }
    for (uint32_t h = 0; h < heads; ++h) {
      const float* q = &mixed[h * head_dim()];
      const float *k = q + k_dim, *v = k + k_dim;
      const float alpha = token.input[conv_dim + 2 * h], beta = token.input[conv_dim + 2 * h + 1];
      const float shrink = 1.0f / (1.0f + dot(k, k, 1.0f));  // keeps the toy's state bounded
      for (uint32_t d = 0; d < v_dim; ++d) {
        const size_t at = (size_t{h} * v_dim + d) * k_dim;
        const float* before = token.matrix_before + at;
        float* after = token.matrix_after + at;
        const float delta = beta * shrink * (v[d] - dot(before, k, alpha));
        for (uint32_t i = 0; i < k_dim; ++i) after[i] = std::fma(k[i], delta, alpha * before[i]);
        const float result = dot(after, q, 1.0f);
        if (!std::isfinite(result)) return false;
        if (out != nullptr) out->push_back(result);
      }
    }
    return true;
  }
};

}  // namespace gyre::kv
