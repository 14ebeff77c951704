// Operators on one token's row: norms, rope, gates, sums. No threads inside.
//
// The order of every sum is the contract's (docs/contract.md): 64 virtual lanes and a fixed tree.
// x and y may be the same array. n is any positive number.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/isa.h"

namespace gyre::kernels {

enum class Activation : uint8_t { silu, gelu_tanh, gelu_erf, gelu_quick, relu, identity };

// How rope pairs elements: (i, i + half) as NeoX does, or (2i, 2i + 1).
enum class RopeStyle : uint8_t { halves, adjacent };

struct RowOps {
  // y = (x * r) * w, r = 1 / sqrt(sum(x*x) / n + eps). w may be null (all ones, no product).
  void (*rms_norm)(const float* x, const float* w, float eps, uint32_t n, float* y);
  // y = ((x - mean) * r) * w + b, b may be null.
  void (*layer_norm)(const float* x, const float* w, const float* b, float eps, uint32_t n,
                     float* y);
  // In place on `heads` heads of head_dim; the first 2 * pairs elements of each are rotated.
  // cosine, sine: [pairs] of this position.
  void (*rope)(float* x, uint32_t heads, uint32_t head_dim, uint32_t pairs, RopeStyle style,
               const float* cosine, const float* sine);
  void (*glu)(Activation act, const float* gate, const float* up, uint32_t n, float* y);
  void (*add)(const float* a, const float* b, uint32_t n, float* y);
  void (*scale)(const float* x, float factor, uint32_t n, float* y);
  void (*softcap)(const float* x, float cap, uint32_t n, float* y);  // cap * tanh(x / cap)
  // True when every element is finite.
  bool (*all_finite)(const float* x, uint32_t n);
};

const RowOps& row_ops(Isa isa);

}  // namespace gyre::kernels
