// The row operators in one instruction set (kernels/rows.h); equal to kernels/reference/rows.cc.
#include "kernels/rows.h"

#include "kernels/cpu/isa/begin.h"

namespace {

// How 16 elements are read and written: all of them, or the first n of a short end.
struct Whole {
  GYRE_WORD F load(const float* p) const { return load_f(p); }
  GYRE_WORD void save(float* p, F x) const { store(p, x); }
};
struct Part {
  uint32_t n;
  GYRE_WORD F load(const float* p) const { return load_first(p, n); }
  GYRE_WORD void save(float* p, F x) const { store_first(p, x, n); }
};

template <class Step>
GYRE_WORD void sweep(uint32_t n, const Step& step) {
  uint32_t i = 0;
  for (; i + 16 <= n; i += 16) step(i, Whole{});
  if (i < n) step(i, Part{n - i});
}

// The tree over the contract's 64 lanes, held as 4 vectors.
GYRE_WORD float fold(const F (&v)[4]) {
  return sum_lanes((v[0] + v[2]) + (v[1] + v[3]));
}

inline float sum(const float* x, uint32_t n) {
  F lanes[4] = {F::splat(0.0f), F::splat(0.0f), F::splat(0.0f), F::splat(0.0f)};
  uint32_t i = 0;
  for (; i + 64 <= n; i += 64) {
    for (int j = 0; j < 4; ++j) lanes[j] = lanes[j] + load_f(x + i + 16 * j);
  }
  for (int j = 0; i < n; ++j, i += 16)
    lanes[j] = lanes[j] + load_first(x + i, n - i < 16 ? n - i : 16);
  return fold(lanes);
}

inline float sum_of_squares(const float* x, float mean, uint32_t n) {
  const F m = F::splat(mean), zero = F::splat(0.0f);
  F lanes[4] = {F::splat(0.0f), F::splat(0.0f), F::splat(0.0f), F::splat(0.0f)};
  uint32_t i = 0;
  for (; i + 64 <= n; i += 64) {
    for (int j = 0; j < 4; ++j) {
      const F c = load_f(x + i + 16 * j) - m;
      lanes[j] = fma(c, c, lanes[j]);
    }
  }
  for (int j = 0; i < n; ++j, i += 16) {
    const uint32_t left = n - i < 16 ? n - i : 16;
    const F c = select(first_lanes(left), load_first(x + i, left) - m, zero);
    lanes[j] = fma(c, c, lanes[j]);
  }
  return fold(lanes);
}

inline float first_lane(F x) {
  float lanes[16];
  store(lanes, x);
  return lanes[0];
}

inline float inverse_deviation(float squares, uint32_t n, float eps) {
  const float variance = squares / static_cast<float>(n) + eps;
  return first_lane(F::splat(1.0f) / sqrt(F::splat(variance)));
}

struct Normalise {
  const float *x, *w, *b;
  float* y;
  F mean, r;
  template <class Row>
  GYRE_WORD void operator()(uint32_t i, Row row) const {
    F v = (row.load(x + i) - mean) * r;
    if (w != nullptr) v = v * row.load(w + i);
    if (b != nullptr) v = v + row.load(b + i);
    row.save(y + i, v);
  }
};

void rms_norm(const float* x, const float* w, float eps, uint32_t n, float* y) {
  const float r = inverse_deviation(sum_of_squares(x, 0.0f, n), n, eps);
  // x - 0 is x.
  sweep(n, Normalise{x, w, nullptr, y, F::splat(0.0f), F::splat(r)});
}

void layer_norm(const float* x, const float* w, const float* b, float eps, uint32_t n, float* y) {
  const float mean = sum(x, n) / static_cast<float>(n);
  const float r = inverse_deviation(sum_of_squares(x, mean, n), n, eps);
  sweep(n, Normalise{x, w, b, y, F::splat(mean), F::splat(r)});
}

struct RotateHalves {
  float *first, *second;
  const float *cosine, *sine;
  template <class Row>
  GYRE_WORD void operator()(uint32_t i, Row row) const {
    const F x0 = row.load(first + i), x1 = row.load(second + i);
    const F c = row.load(cosine + i), s = row.load(sine + i);
    row.save(first + i, fma(x0, c, -(x1 * s)));
    row.save(second + i, fma(x0, s, x1 * c));
  }
};

// c, s and -s, c of each pair side by side; x1 * -s is -(x1 * s).
struct RotateAdjacent {
  float* x;
  const float *cs, *sc;
  template <class Row>
  GYRE_WORD void operator()(uint32_t i, Row row) const {
    const F v = row.load(x + i);
    row.save(x + i, fma(even_lanes(v), row.load(cs + i), odd_lanes(v) * row.load(sc + i)));
  }
};

void rope_adjacent(float* x, uint32_t heads, uint32_t head_dim, uint32_t pairs, const float* cosine,
                   const float* sine) {
  constexpr uint32_t kPairs = 128;
  float cs[2 * kPairs], sc[2 * kPairs];
  for (uint32_t begin = 0; begin < pairs; begin += kPairs) {
    const uint32_t count = pairs - begin < kPairs ? pairs - begin : kPairs;
    for (uint32_t i = 0; i < count; ++i) {
      const float c = cosine[begin + i], s = sine[begin + i];
      cs[2 * i] = c, cs[2 * i + 1] = s;
      sc[2 * i] = -s, sc[2 * i + 1] = c;
    }
    for (uint32_t h = 0; h < heads; ++h)
      sweep(2 * count, RotateAdjacent{x + size_t{h} * head_dim + 2 * begin, cs, sc});
  }
}

void rope(float* x, uint32_t heads, uint32_t head_dim, uint32_t pairs, RopeStyle style,
          const float* cosine, const float* sine) {
  if (style == RopeStyle::adjacent) return rope_adjacent(x, heads, head_dim, pairs, cosine, sine);
  for (uint32_t h = 0; h < heads; ++h, x += head_dim)
    sweep(pairs, RotateHalves{x, x + pairs, cosine, sine});
}

template <Activation act>
GYRE_WORD F activate(F g) {
  if constexpr (act == Activation::silu) return silu(g);
  if constexpr (act == Activation::gelu_tanh) return gelu(g);
  if constexpr (act == Activation::gelu_erf) return gelu_erf(g);
  if constexpr (act == Activation::gelu_quick) return gelu_quick(g);
  if constexpr (act == Activation::relu) return select(less(g, F::splat(0.0f)), F::splat(0.0f), g);
  return g;
}

template <Activation act>
struct Gate {
  const float *gate, *up;
  float* y;
  template <class Row>
  GYRE_WORD void operator()(uint32_t i, Row row) const {
    row.save(y + i, activate<act>(row.load(gate + i)) * row.load(up + i));
  }
};

void glu(Activation act, const float* gate, const float* up, uint32_t n, float* y) {
  switch (act) {
    case Activation::silu:
      return sweep(n, Gate<Activation::silu>{gate, up, y});
    case Activation::gelu_tanh:
      return sweep(n, Gate<Activation::gelu_tanh>{gate, up, y});
    case Activation::gelu_erf:
      return sweep(n, Gate<Activation::gelu_erf>{gate, up, y});
    case Activation::gelu_quick:
      return sweep(n, Gate<Activation::gelu_quick>{gate, up, y});
    case Activation::relu:
      return sweep(n, Gate<Activation::relu>{gate, up, y});
    case Activation::identity:
      return sweep(n, Gate<Activation::identity>{gate, up, y});
  }
}

struct Sum {
  const float *a, *b;
  float* y;
  template <class Row>
  GYRE_WORD void operator()(uint32_t i, Row row) const {
    row.save(y + i, row.load(a + i) + row.load(b + i));
  }
};

void add(const float* a, const float* b, uint32_t n, float* y) {
  sweep(n, Sum{a, b, y});
}

struct Multiple {
  const float* x;
  float* y;
  F factor;
  template <class Row>
  GYRE_WORD void operator()(uint32_t i, Row row) const {
    row.save(y + i, row.load(x + i) * factor);
  }
};

void scale(const float* x, float factor, uint32_t n, float* y) {
  sweep(n, Multiple{x, y, F::splat(factor)});
}

struct Cap {
  const float* x;
  float* y;
  F cap;
  template <class Row>
  GYRE_WORD void operator()(uint32_t i, Row row) const {
    row.save(y + i, cap * tanh(row.load(x + i) / cap));
  }
};

void softcap(const float* x, float cap, uint32_t n, float* y) {
  sweep(n, Cap{x, y, F::splat(cap)});
}

// Magnitudes order like their bits; above the largest float lie Inf and NaN.
bool all_finite(const float* x, uint32_t n) {
  const I magnitude_bits = I::splat(0x7fffffff);
  I most = I::splat(0);
  uint32_t i = 0;
  for (; i + 16 <= n; i += 16) most = max(most, bits(load_f(x + i)) & magnitude_bits);
  if (i < n) most = max(most, bits(load_first(x + i, n - i)) & magnitude_bits);
  return !any(above(most, I::splat(0x7f7fffff)));
}

}  // namespace

extern const RowOps row_ops;
const RowOps row_ops = {rms_norm, layer_norm, rope, glu, add, scale, softcap, all_finite};

#include "kernels/cpu/isa/end.h"
