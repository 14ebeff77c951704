// The arithmetic of one block of 32 k, by family of formats. Included in a target region.
//
// An int32 dot starts at 0x4b400000 - zero * (sum of q), so its bits, read as a float, are
// M + idot with M = 12582912 = 1.5 * 2^23, exact for |idot| < 2^22. Then
//   fma(M + idot, f, -M f) = f * idot, rounded once, whenever M f is exact,
// and conversion and product are one operation. M f is exact when f has 22 significant bits
// (activation scales: docs/decisions/0003) or is a small integer (sub-scales). A zero result is +0,
// as the contract's fma(d, idot, +0) gives. Bounds of |idot|: codes of 8 bits 32 * 128 * 127 <
// 2^20.
//
// A Column holds what one column brings to a block: d, and x, y as the family names them.
//   kVectors kEnds     row vectors of a block (Format::vectors), of a super-block (Format::ends)
//   kChains            int32 dots of a block
//   chain<i>(acc, v, column, u)    u takes dot i
//   close(u, v, column, s)         the block's part of the segment's sum s
//   minima(v, column, t)           the block's part of t (kHasT); kFirstMin: the first v it reads
//   finish(out, s, t, ends)        the segment's part of the output

//   kPairs             x and y (or the two dots) stand for the block's two groups of 16

constexpr float kMagic = 12582912.0f;       // 1.5 * 2^23
constexpr int32_t kMagicBits = 0x4b400000;  // its bits; adding n gives the bits of 12582912 + n

struct Column {
  F d, x, y;
};

// v = scale (, min); x = -M d, y = d * sum of q.
template <bool kMin>
struct Scaled {
  static constexpr int kVectors = kMin ? 2 : 1, kChains = 1, kEnds = 0;
  static constexpr bool kHasT = false, kHasX = true, kHasY = kMin, kPairs = false;
  static constexpr int kFirstMin = 0;
  template <int i>
  static GYRE_WORD void chain(I acc, const F*, const Column& c, F& u) {
    u = fma(from_bits(acc), c.d, c.x);
  }
  static GYRE_WORD void minima(const F*, const Column&, F&) {}
  static GYRE_WORD void close(F u, const F* v, const Column& c, F& s) {
    s = fma(v[0], u, s);
    if constexpr (kMin) s = fma(v[1], c.y, s);
  }
  static GYRE_WORD F finish(F out, F s, F, const F*) { return out + s; }
};

// v = sub_scale, -M sub_scale (, sub_min); y = d * sum of q. u = sub_scale * idot is exact:
// Q4_K 63 * 32 * 15 * 127, Q5_K 63 * 32 * 31 * 127, IQ4_XS 32 * 32 * 127 * 127 < 2^24.
template <bool kMin>
struct Super32 {
  static constexpr int kVectors = kMin ? 3 : 2, kChains = 1, kEnds = kMin ? 2 : 1;
  static constexpr bool kHasT = kMin, kHasX = false, kHasY = kMin, kPairs = false;
  static constexpr int kFirstMin = 2;
  template <int i>
  static GYRE_WORD void chain(I acc, const F* v, const Column&, F& u) {
    u = fma(from_bits(acc), v[0], v[1]);
  }
  static GYRE_WORD void close(F u, const F*, const Column& c, F& s) { s = fma(c.d, u, s); }
  static GYRE_WORD void minima(const F* v, const Column& c, F& t) { t = fma(v[2], c.y, t); }
  static GYRE_WORD F finish(F out, F s, F t, const F* ends) {
    out = fma(ends[0], s, out);
    if constexpr (kMin) out = fma(ends[1], t, out);
    return out;
  }
};

// v = sub_scale, -M sub_scale of both groups of 16 (, sub_min of both); with minima x, y = d * sum
// of q of the groups. u is exact: Q6_K 2 * 128 * 16 * 32 * 127 < 2^24, Q3_K and Q2_K less.
template <bool kMin>
struct Super16 {
  static constexpr int kVectors = kMin ? 6 : 4, kChains = 2, kEnds = kMin ? 2 : 1;
  static constexpr bool kHasT = kMin, kHasX = kMin, kHasY = kMin, kPairs = true;
  static constexpr int kFirstMin = 4;
  template <int i>
  static GYRE_WORD void chain(I acc, const F* v, const Column&, F& u) {
    const F dot = fma(from_bits(acc), v[2 * i], v[2 * i + 1]);
    u = i == 0 ? dot : u + dot;
  }
  static GYRE_WORD void close(F u, const F*, const Column& c, F& s) { s = fma(c.d, u, s); }
  static GYRE_WORD void minima(const F* v, const Column& c, F& t) {
    t = fma(v[5], c.y, fma(v[4], c.x, t));
  }
  static GYRE_WORD F finish(F out, F s, F t, const F* ends) {
    return Super32<kMin>::finish(out, s, t, ends);
  }
};

// Groups of 16 whose sub-scales fit into the codes' bytes: one dot gives u. v = sub_min of both
// groups; |u| < 2^22: Q3_K 32 * 128 * 127, Q2_K 32 * 45 * 127.
template <bool kMin>
struct Folded16 {
  static constexpr int kVectors = 2, kChains = 1, kEnds = kMin ? 2 : 1, kFirstMin = 0;
  static constexpr bool kHasT = kMin, kHasX = kMin, kHasY = kMin, kPairs = true;
  template <int i>
  static GYRE_WORD void chain(I acc, const F*, const Column&, F& u) {
    u = from_bits(acc) - F::splat(kMagic);
  }
  static GYRE_WORD void close(F u, const F*, const Column& c, F& s) { s = fma(c.d, u, s); }
  static GYRE_WORD void minima(const F* v, const Column& c, F& t) {
    t = fma(v[1], c.y, fma(v[0], c.x, t));
  }
  static GYRE_WORD F finish(F out, F s, F t, const F* ends) {
    return Super32<kMin>::finish(out, s, t, ends);
  }
};
