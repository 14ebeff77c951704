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
//   close(u, v, column, s, t)      the block's part of the segment's sums s and t
//   finish(out, s, t, ends)        the segment's part of the output

struct Column {
  F d, x, y;
};

// v = scale (, min); x = -M d, y = d * sum of q.
template <bool kMin>
struct Scaled {
  static constexpr int kVectors = kMin ? 2 : 1, kChains = 1, kEnds = 0;
  static constexpr bool kHasT = false, kHasX = true, kHasY = kMin;
  template <int i>
  static GYRE_WORD void chain(I acc, const F*, const Column& c, F& u) {
    u = fma(from_bits(acc), c.d, c.x);
  }
  static GYRE_WORD void close(F u, const F* v, const Column& c, F& s, F&) {
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
  static constexpr bool kHasT = kMin, kHasX = false, kHasY = kMin;
  template <int i>
  static GYRE_WORD void chain(I acc, const F* v, const Column&, F& u) {
    u = fma(from_bits(acc), v[0], v[1]);
  }
  static GYRE_WORD void close(F u, const F* v, const Column& c, F& s, F& t) {
    s = fma(c.d, u, s);
    if constexpr (kMin) t = fma(v[2], c.y, t);
  }
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
  static constexpr bool kHasT = kMin, kHasX = kMin, kHasY = kMin;
  template <int i>
  static GYRE_WORD void chain(I acc, const F* v, const Column&, F& u) {
    const F dot = fma(from_bits(acc), v[2 * i], v[2 * i + 1]);
    u = i == 0 ? dot : u + dot;
  }
  static GYRE_WORD void close(F u, const F* v, const Column& c, F& s, F& t) {
    s = fma(c.d, u, s);
    if constexpr (kMin) t = fma(v[5], c.y, fma(v[4], c.x, t));
  }
  static GYRE_WORD F finish(F out, F s, F t, const F* ends) {
    return Super32<kMin>::finish(out, s, t, ends);
  }
};
