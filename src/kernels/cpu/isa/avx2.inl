// One word, one line:
// clang-format off
// The vocabulary (isa/begin.h) in AVX2, with or without 256-bit VNNI: two registers for each word.
// M holds all ones or zeros in each 32 bits. B: bytes 0-31 belong to lanes 0-7.

struct I {
  __m256i a, b;
  static GYRE_WORD I splat(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
};
struct F {
  __m256 a, b;
  static GYRE_WORD F splat(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
};
struct M {
  __m256 a, b;
};
struct B {
  __m256i a, b;
  static GYRE_WORD B splat(uint8_t x) {
    const __m256i s = _mm256_set1_epi8(static_cast<char>(x));
    return {s, s};
  }
};
// The linear kernels' tile: panels, columns, columns of formats with two dots a block.
inline constexpr int kTilePanels = 1, kTileColumns = 4, kTileColumnsOfPairs = 4;
inline constexpr uint32_t kStreamColumns = 4;  // up to this many, weights go straight to registers
inline constexpr bool kChainsAtOnce = false;
#if defined(GYRE_TARGET_avxvnni)
inline constexpr bool kSignedBytes = false;
#else
inline constexpr bool kSignedBytes = true;
#endif
inline constexpr bool kBf16Dot = false;

GYRE_WORD F operator+(F x, F y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
GYRE_WORD F operator-(F x, F y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
GYRE_WORD F operator*(F x, F y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
GYRE_WORD F operator/(F x, F y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
GYRE_WORD F operator-(F x) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_xor_ps(x.a, sign), _mm256_xor_ps(x.b, sign)};
}
GYRE_WORD F fma(F x, F y, F z) {
  return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
GYRE_WORD F sqrt(F x) { return {_mm256_sqrt_ps(x.a), _mm256_sqrt_ps(x.b)}; }
GYRE_WORD F min(F x, F y) { return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
GYRE_WORD F max(F x, F y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }

GYRE_WORD I operator+(I x, I y) { return {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)}; }
GYRE_WORD I operator-(I x, I y) { return {_mm256_sub_epi32(x.a, y.a), _mm256_sub_epi32(x.b, y.b)}; }
GYRE_WORD I operator*(I x, I y) {
  return {_mm256_mullo_epi32(x.a, y.a), _mm256_mullo_epi32(x.b, y.b)};
}
GYRE_WORD I operator&(I x, I y) { return {_mm256_and_si256(x.a, y.a), _mm256_and_si256(x.b, y.b)}; }
GYRE_WORD I operator|(I x, I y) { return {_mm256_or_si256(x.a, y.a), _mm256_or_si256(x.b, y.b)}; }
GYRE_WORD I operator^(I x, I y) { return {_mm256_xor_si256(x.a, y.a), _mm256_xor_si256(x.b, y.b)}; }
template <int n>
GYRE_WORD I shift_left(I x) { return {_mm256_slli_epi32(x.a, n), _mm256_slli_epi32(x.b, n)}; }
GYRE_WORD I shift_left(I x, I n) { return {_mm256_sllv_epi32(x.a, n.a), _mm256_sllv_epi32(x.b, n.b)}; }
template <int n>
GYRE_WORD I shift_right(I x) { return {_mm256_srli_epi32(x.a, n), _mm256_srli_epi32(x.b, n)}; }
GYRE_WORD I shift_right(I x, I n) { return {_mm256_srlv_epi32(x.a, n.a), _mm256_srlv_epi32(x.b, n.b)}; }
template <int n>
GYRE_WORD I shift_right_signed(I x) {
  return {_mm256_srai_epi32(x.a, n), _mm256_srai_epi32(x.b, n)};
}
GYRE_WORD I max(I x, I y) { return {_mm256_max_epi32(x.a, y.a), _mm256_max_epi32(x.b, y.b)}; }
GYRE_WORD I min(I x, I y) { return {_mm256_min_epi32(x.a, y.a), _mm256_min_epi32(x.b, y.b)}; }

GYRE_WORD I bits(F x) { return {_mm256_castps_si256(x.a), _mm256_castps_si256(x.b)}; }
GYRE_WORD F from_bits(I x) { return {_mm256_castsi256_ps(x.a), _mm256_castsi256_ps(x.b)}; }
GYRE_WORD F to_float(I x) { return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }
GYRE_WORD I round_to_int(F x) { return {_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)}; }

GYRE_WORD M as_mask(I x) { return {_mm256_castsi256_ps(x.a), _mm256_castsi256_ps(x.b)}; }
GYRE_WORD M less(F x, F y) {
  return {_mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ)};
}
GYRE_WORD M equal(F x, F y) {
  return {_mm256_cmp_ps(x.a, y.a, _CMP_EQ_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_EQ_OQ)};
}
GYRE_WORD M above(I x, I y) {
  return as_mask({_mm256_cmpgt_epi32(x.a, y.a), _mm256_cmpgt_epi32(x.b, y.b)});
}
GYRE_WORD M operator&(M x, M y) { return {_mm256_and_ps(x.a, y.a), _mm256_and_ps(x.b, y.b)}; }
GYRE_WORD M operator|(M x, M y) { return {_mm256_or_ps(x.a, y.a), _mm256_or_ps(x.b, y.b)}; }
GYRE_WORD bool any(M m) { return (_mm256_movemask_ps(m.a) | _mm256_movemask_ps(m.b)) != 0; }
GYRE_WORD M first_lanes(uint32_t n) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const I first = I::splat(static_cast<int32_t>(n));
  return above(first, {lane, _mm256_add_epi32(lane, _mm256_set1_epi32(8))});
}
GYRE_WORD F select(M m, F x, F y) {
  return {_mm256_blendv_ps(y.a, x.a, m.a), _mm256_blendv_ps(y.b, x.b, m.b)};
}
GYRE_WORD I select(M m, I x, I y) { return bits(select(m, from_bits(x), from_bits(y))); }

GYRE_WORD F load_f(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
GYRE_WORD __m256i load_half(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
GYRE_WORD __m128i load_quarter(const void* p) {
  return _mm_loadu_si128(static_cast<const __m128i*>(p));
}
GYRE_WORD I load_i(const int32_t* p) { return {load_half(p), load_half(p + 8)}; }
GYRE_WORD void store(float* p, F x) {
  _mm256_storeu_ps(p, x.a);
  _mm256_storeu_ps(p + 8, x.b);
}
GYRE_WORD void store(int32_t* p, I x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), x.a);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 8), x.b);
}
GYRE_WORD F load_first(const float* p, uint32_t n) {
  const M m = first_lanes(n);
  return {_mm256_maskload_ps(p, _mm256_castps_si256(m.a)),
          _mm256_maskload_ps(p + 8, _mm256_castps_si256(m.b))};
}
GYRE_WORD void store_first(float* p, F x, uint32_t n) {
  const M m = first_lanes(n);
  _mm256_maskstore_ps(p, _mm256_castps_si256(m.a), x.a);
  _mm256_maskstore_ps(p + 8, _mm256_castps_si256(m.b), x.b);
}
GYRE_WORD I load_u8(const void* p) {
  const __m128i x = load_quarter(p);
  return {_mm256_cvtepu8_epi32(x), _mm256_cvtepu8_epi32(_mm_srli_si128(x, 8))};
}
GYRE_WORD I load_i8(const void* p) {
  const __m128i x = load_quarter(p);
  return {_mm256_cvtepi8_epi32(x), _mm256_cvtepi8_epi32(_mm_srli_si128(x, 8))};
}
GYRE_WORD const void* next_quarter(const void* p) { return static_cast<const char*>(p) + 16; }
GYRE_WORD I load_u16(const void* p) {
  return {_mm256_cvtepu16_epi32(load_quarter(p)), _mm256_cvtepu16_epi32(load_quarter(next_quarter(p)))};
}
GYRE_WORD F load_f16(const void* p) {
  return {_mm256_cvtph_ps(load_quarter(p)), _mm256_cvtph_ps(load_quarter(next_quarter(p)))};
}
GYRE_WORD F load_bf16(const void* p) { return from_bits(shift_left<16>(load_u16(p))); }
// The low 16 bits of each lane, in order: packus works within 128 bits, so the middle is swapped.
GYRE_WORD __m256i narrow16(I x) {
  const I low = x & I::splat(0xffff);
  return _mm256_permute4x64_epi64(_mm256_packus_epi32(low.a, low.b), 0xd8);
}
GYRE_WORD void store_u16(void* p, I x) {
  _mm256_storeu_si256(static_cast<__m256i*>(p), narrow16(x));
}
GYRE_WORD void store_i8(void* p, I x) {
  const __m256i low = narrow16(x & I::splat(0xff));
  _mm_storeu_si128(static_cast<__m128i*>(p),
                   _mm_packus_epi16(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1)));
}

GYRE_WORD float sum_lanes(F x) {
  const __m256 h = _mm256_add_ps(x.a, x.b);
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
GYRE_WORD int32_t sum_lanes(I x) {
  const __m256i h = _mm256_add_epi32(x.a, x.b);
  __m128i s = _mm_add_epi32(_mm256_castsi256_si128(h), _mm256_extracti128_si256(h, 1));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}
GYRE_WORD int32_t max_lanes(I x) {
  const __m256i h = _mm256_max_epi32(x.a, x.b);
  __m128i s = _mm_max_epi32(_mm256_castsi256_si128(h), _mm256_extracti128_si256(h, 1));
  s = _mm_max_epi32(s, _mm_shuffle_epi32(s, 0x4e));
  return _mm_cvtsi128_si32(_mm_max_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}

GYRE_WORD I splat4(const void* p) {
  int32_t x;
  std::memcpy(&x, p, 4);
  return I::splat(x);
}
#if defined(GYRE_TARGET_avxvnni)
GYRE_WORD I dot4(I acc, B w, I x) {
  return {_mm256_dpbusd_avx_epi32(acc.a, w.a, x.a), _mm256_dpbusd_avx_epi32(acc.b, w.b, x.b)};
}
GYRE_WORD I dot4_wide(I acc, B w, I x) { return dot4(acc, w, x); }
#else
// unsigned * signed bytes, pairs in 16 bits, which must hold them, then pairs of pairs in 32.
GYRE_WORD __m256i dot4_half(__m256i acc, __m256i w, __m256i x) {
  const __m256i pairs = _mm256_maddubs_epi16(w, x);
  return _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
GYRE_WORD I dot4(I acc, B w, I x) { return {dot4_half(acc.a, w.a, x.a), dot4_half(acc.b, w.b, x.b)}; }
// w signed: |w| <= 128 against x with w's sign; 2 * 128 * 127 fits in 16 bits.
GYRE_WORD I dot4_wide(I acc, B w, I x) {
  return {dot4_half(acc.a, _mm256_abs_epi8(w.a), _mm256_sign_epi8(x.a, w.a)),
          dot4_half(acc.b, _mm256_abs_epi8(w.b), _mm256_sign_epi8(x.b, w.b))};
}
#endif

// One int32 dot per lane over the lines of a block, in the order add() gets them. Codes are at most
// kMaxCode, or any byte where kWide. Without VNNI, pairs of products add up in 16 bits as long as
// these hold them.
template <bool kWide, int kMaxCode>
struct Dots {
#if defined(GYRE_TARGET_avxvnni)
  static constexpr int kRun = 1;
#else
  static constexpr int kFit = 32767 / (2 * 127 * kMaxCode);
  static constexpr int kRun = kWide || kFit < 2 ? 1 : kFit < 4 ? 2 : kFit < 8 ? 4 : 8;
#endif
  I sum, pairs;
  bool open = false;
  GYRE_WORD void start(I from) { sum = from; }
  GYRE_WORD void add(int j, B w, I x) {
    if constexpr (kRun == 1) {
      sum = kWide ? dot4_wide(sum, w, x) : dot4(sum, w, x);
      return;
    }
    const I p = {_mm256_maddubs_epi16(w.a, x.a), _mm256_maddubs_epi16(w.b, x.b)};
    pairs = open ? I{_mm256_add_epi16(pairs.a, p.a), _mm256_add_epi16(pairs.b, p.b)} : p;
    open = true;
    if (j % kRun == kRun - 1) finish();
  }
  GYRE_WORD void finish() {
    if (!open) return;
    const __m256i one = _mm256_set1_epi16(1);
    sum = sum + I{_mm256_madd_epi16(pairs.a, one), _mm256_madd_epi16(pairs.b, one)};
    open = false;
  }
};
GYRE_WORD I keep(I x) { return x; }
GYRE_WORD F low_of_pair(I x) { return from_bits(shift_left<16>(x)); }
GYRE_WORD F high_of_pair(I x) { return from_bits(x & I::splat(-0x10000)); }
GYRE_WORD F fma_pair(F s, I w, I x) {
  s = fma(high_of_pair(w), high_of_pair(x), s);
  return fma(low_of_pair(w), low_of_pair(x), s);
}
GYRE_WORD F fma_pair_native(F s, I w, I x) { return fma_pair(s, w, x); }

GYRE_WORD B load_line(const void* p) {
  const __m256i* q = static_cast<const __m256i*>(p);
  return {_mm256_load_si256(q), _mm256_load_si256(q + 1)};
}
GYRE_WORD void store_line(void* p, B x) {
  __m256i* q = static_cast<__m256i*>(p);
  _mm256_store_si256(q, x.a);
  _mm256_store_si256(q + 1, x.b);
}
GYRE_WORD I as_int(B x) { return {x.a, x.b}; }
template <int bytes>
GYRE_WORD I repeat(const void* p) {
  if constexpr (bytes == 32) {
    return {load_half(p), load_half(p)};
  } else if constexpr (bytes == 16) {
    const __m256i x = _mm256_broadcastsi128_si256(load_quarter(p));
    return {x, x};
  } else {
    int64_t x;
    std::memcpy(&x, p, 8);
    return {_mm256_set1_epi64x(x), _mm256_set1_epi64x(x)};
  }
}
template <int n>
GYRE_WORD F swap_lanes(F x) {
  if constexpr (n == 1) return {_mm256_permute_ps(x.a, 0xb1), _mm256_permute_ps(x.b, 0xb1)};
  if constexpr (n == 2) return {_mm256_permute_ps(x.a, 0x4e), _mm256_permute_ps(x.b, 0x4e)};
  if constexpr (n == 4)
    return {_mm256_permute2f128_ps(x.a, x.a, 1), _mm256_permute2f128_ps(x.b, x.b, 1)};
  return {x.b, x.a};
}
inline constexpr bool kLooksUpWords = false;
GYRE_WORD __m256i gather_pairs(const uint16_t* table, __m256i i) {
  const int* t = reinterpret_cast<const int*>(table);
  const __m256i low = _mm256_set1_epi32(0xffff);
  const __m256i even = _mm256_i32gather_epi32(t, _mm256_and_si256(i, low), 2);
  const __m256i odd = _mm256_i32gather_epi32(t, _mm256_srli_epi32(i, 16), 2);
  return _mm256_or_si256(_mm256_and_si256(even, low), _mm256_slli_epi32(odd, 16));
}
template <int bits>
GYRE_WORD I look_up_pairs(const uint16_t* table, I i) {
  return {gather_pairs(table, i.a), gather_pairs(table, i.b)};
}
GYRE_WORD B scale_bytes(B x, I n) {
  return {_mm256_mullo_epi16(x.a, n.a), _mm256_mullo_epi16(x.b, n.b)};
}
GYRE_WORD B as_bytes(I x) { return {x.a, x.b}; }
GYRE_WORD B operator&(B x, B y) { return as_bytes(as_int(x) & as_int(y)); }
GYRE_WORD B operator|(B x, B y) { return as_bytes(as_int(x) | as_int(y)); }
GYRE_WORD B operator^(B x, B y) { return as_bytes(as_int(x) ^ as_int(y)); }
GYRE_WORD B operator+(B x, B y) { return {_mm256_add_epi8(x.a, y.a), _mm256_add_epi8(x.b, y.b)}; }
GYRE_WORD B operator-(B x, B y) { return {_mm256_sub_epi8(x.a, y.a), _mm256_sub_epi8(x.b, y.b)}; }
template <int n>
GYRE_WORD B byte_shift_right(B x) {
  return as_bytes(shift_right<n>(as_int(x))) & B::splat(0xff >> n);
}
template <int n>
GYRE_WORD B byte_shift_left(B x) {
  return as_bytes(shift_left<n>(as_int(x))) & B::splat(static_cast<uint8_t>(0xff << n));
}
GYRE_WORD B nibble_low(B x) { return x & B::splat(15); }
GYRE_WORD B nibble_high(B x) { return byte_shift_right<4>(x); }
GYRE_WORD B look_up(const uint8_t* table, B nibbles) {
  const __m256i t = _mm256_broadcastsi128_si256(load_quarter(table));
  return {_mm256_shuffle_epi8(t, nibbles.a), _mm256_shuffle_epi8(t, nibbles.b)};
}
GYRE_WORD __m256i spread_half(uint32_t m) {
  const __m256i byte_of = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202,
                                             0x0303030303030303);
  const __m256i bit = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201u));
  const __m256i own = _mm256_shuffle_epi8(_mm256_set1_epi32(static_cast<int32_t>(m)), byte_of);
  return _mm256_cmpeq_epi8(_mm256_and_si256(own, bit), bit);
}
GYRE_WORD B bit_spread(const void* p) {
  uint32_t m[2];
  std::memcpy(m, p, 8);
  return {spread_half(m[0]), spread_half(m[1])};
}
// 16 bytes, one for each lane, in all 4 bytes of the lane.
GYRE_WORD B splat_lane_bytes(const void* p) { return as_bytes(load_u8(p) * I::splat(0x01010101)); }
GYRE_WORD void prefetch_l2(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1); }
GYRE_WORD void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }
GYRE_WORD F even_lanes(F x) { return {_mm256_moveldup_ps(x.a), _mm256_moveldup_ps(x.b)}; }
GYRE_WORD F odd_lanes(F x) { return {_mm256_movehdup_ps(x.a), _mm256_movehdup_ps(x.b)}; }
