// Weights in f32, f16 and bf16: no codes, the panel's vectors are the weights. Included in a target
// region.

// A step takes kStep elements of K: 16 rows' weights at `panel`, one column's values at `x`.
struct F32 {
  static constexpr uint32_t kStep = 1, kStepBytes = 64;
  using Element = float;
  using Weights = F;
  static GYRE_WORD F weights(const uint8_t* panel) {
    return load_f(reinterpret_cast<const float*>(panel));
  }
  static GYRE_WORD F add(F s, F w, const float* x) { return fma(w, F::splat(*x), s); }
};
struct F16 : F32 {
  static constexpr uint32_t kStepBytes = 32;
  static GYRE_WORD F weights(const uint8_t* panel) { return load_f16(panel); }
};
template <bool kNative>
struct Bf16 {
  static constexpr uint32_t kStep = 2, kStepBytes = 64;
  using Element = uint16_t;
  using Weights = I;
  static GYRE_WORD I weights(const uint8_t* panel) { return as_int(load_line(panel)); }
  static GYRE_WORD F add(F s, I w, const uint16_t* x) {
    return kNative ? fma_pair_native(s, w, splat4(x)) : fma_pair(s, w, splat4(x));
  }
};

// N columns of P panels, `steps` steps of each.
template <class Type, int P, int N>
void plain_tile(const uint8_t* panel, size_t panel_bytes, uint32_t steps,
                const typename Type::Element* x, size_t ld, F (*out)[P]) {
  constexpr uint32_t kSegmentSteps = kSegment / Type::kStep;
  clear<P, N>(out);
  for (uint32_t begin = 0; begin < steps; begin += kSegmentSteps) {
    const uint32_t end = std::min(steps, begin + kSegmentSteps);
    F s[N][P];
    clear<P, N>(s);
    for (uint32_t k = begin; k < end; ++k) {
      typename Type::Weights w[P];
      for (int p = 0; p < P; ++p)
        w[p] = Type::weights(panel + p * panel_bytes + size_t{k} * Type::kStepBytes);
      for (int n = 0; n < N; ++n) {
        for (int p = 0; p < P; ++p)
          s[n][p] = Type::add(s[n][p], w[p], x + n * ld + k * Type::kStep);
      }
    }
    for (int n = 0; n < N; ++n) {
      for (int p = 0; p < P; ++p) out[n][p] = out[n][p] + s[n][p];
    }
  }
}

template <class Type>
GYRE_WORD const typename Type::Element* plain_input(const Activations& x, uint32_t column) {
  if constexpr (Type::kStep == 2)
    return x.bf16 + column * ((size_t{x.k} + 1) / 2 * 2);
  else
    return x.f32 + column * x.ld;
}

template <class Type, int P, int N>
void plain_outputs(const Call& call, uint32_t panel, uint32_t column) {
  const size_t ld = Type::kStep == 2 ? (size_t{call.x.k} + 1) / 2 * 2 : call.x.ld;
  const uint32_t steps = (call.job.matrix->cols() + Type::kStep - 1) / Type::kStep;
  F out[N][P];
  plain_tile<Type, P, N>(call.panel(panel), call.panel_bytes, steps,
                         plain_input<Type>(call.x, column), ld, out);
  for (uint32_t n = 0; n < N; ++n) {
    for (uint32_t p = 0; p < P; ++p) write_output(call.job, panel + p, column + n, out[n][p]);
  }
}

template <class Type, int P>
void plain_panels(const Call& call, const Range& r, uint32_t panel) {
  const uint32_t tiles = (r.columns + 5) / 6;
  for (uint32_t i = 0; i < tiles; ++i) {
    const uint32_t c = r.columns * i / tiles, n = r.columns * (i + 1) / tiles - c;
    const uint32_t column = r.column_begin + c;
    switch (n) {
      case 1:
        plain_outputs<Type, P, 1>(call, panel, column);
        break;
      case 2:
        plain_outputs<Type, P, 2>(call, panel, column);
        break;
      case 3:
        plain_outputs<Type, P, 3>(call, panel, column);
        break;
      case 4:
        plain_outputs<Type, P, 4>(call, panel, column);
        break;
      case 5:
        plain_outputs<Type, P, 5>(call, panel, column);
        break;
      default:
        plain_outputs<Type, P, 6>(call, panel, column);
        break;
    }
  }
}

template <class Type>
void multiply_plain(const Call& call, const Range& r) {
  uint32_t panel = r.panel_begin;
  for (; panel + kTilePanels <= r.panel_end; panel += kTilePanels)
    plain_panels<Type, kTilePanels>(call, r, panel);
  for (; panel < r.panel_end; ++panel) plain_panels<Type, 1>(call, r, panel);
}
