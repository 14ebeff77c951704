// One word, one line:
// clang-format off
// The vocabulary (isa/begin.h) in AVX-512: one register for each of F, I and B, M a mask register.

struct I {
  __m512i v;
  static GYRE_WORD I splat(int32_t x) { return {_mm512_set1_epi32(x)}; }
};
struct F {
  __m512 v;
  static GYRE_WORD F splat(float x) { return {_mm512_set1_ps(x)}; }
};
struct M {
  __mmask16 v;
};
struct B {
  __m512i v;
  static GYRE_WORD B splat(uint8_t x) { return {_mm512_set1_epi8(static_cast<char>(x))}; }
};
// The linear kernels' tile: panels, columns, columns of formats with two dots a block.
inline constexpr int kTilePanels = 2, kTileColumns = 7, kTileColumnsOfPairs = 4;
inline constexpr uint32_t kStreamColumns = 8;  // up to this many, weights go straight to registers
inline constexpr bool kChainsAtOnce = true;  // the two dots of a block side by side
inline constexpr bool kSignedBytes = false;
#if defined(GYRE_TARGET_avx512)
inline constexpr bool kBf16Dot = true;  // fma_pair_native is one instruction
#else
inline constexpr bool kBf16Dot = false;
#endif

GYRE_WORD F operator+(F a, F b) { return {_mm512_add_ps(a.v, b.v)}; }
GYRE_WORD F operator-(F a, F b) { return {_mm512_sub_ps(a.v, b.v)}; }
GYRE_WORD F operator*(F a, F b) { return {_mm512_mul_ps(a.v, b.v)}; }
GYRE_WORD F operator/(F a, F b) { return {_mm512_div_ps(a.v, b.v)}; }
GYRE_WORD F operator-(F a) { return {_mm512_xor_ps(a.v, _mm512_set1_ps(-0.0f))}; }
GYRE_WORD F fma(F a, F b, F c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
GYRE_WORD F sqrt(F a) { return {_mm512_sqrt_ps(a.v)}; }
GYRE_WORD F min(F a, F b) { return {_mm512_min_ps(a.v, b.v)}; }
GYRE_WORD F max(F a, F b) { return {_mm512_max_ps(a.v, b.v)}; }

GYRE_WORD I operator+(I a, I b) { return {_mm512_add_epi32(a.v, b.v)}; }
GYRE_WORD I operator-(I a, I b) { return {_mm512_sub_epi32(a.v, b.v)}; }
GYRE_WORD I operator*(I a, I b) { return {_mm512_mullo_epi32(a.v, b.v)}; }
GYRE_WORD I operator&(I a, I b) { return {_mm512_and_si512(a.v, b.v)}; }
GYRE_WORD I operator|(I a, I b) { return {_mm512_or_si512(a.v, b.v)}; }
GYRE_WORD I operator^(I a, I b) { return {_mm512_xor_si512(a.v, b.v)}; }
template <int n>
GYRE_WORD I shift_left(I a) { return {_mm512_slli_epi32(a.v, n)}; }
GYRE_WORD I shift_left(I a, I n) { return {_mm512_sllv_epi32(a.v, n.v)}; }
template <int n>
GYRE_WORD I shift_right(I a) { return {_mm512_srli_epi32(a.v, n)}; }
GYRE_WORD I shift_right(I a, I n) { return {_mm512_srlv_epi32(a.v, n.v)}; }
template <int n>
GYRE_WORD I shift_right_signed(I a) { return {_mm512_srai_epi32(a.v, n)}; }
GYRE_WORD I max(I a, I b) { return {_mm512_max_epi32(a.v, b.v)}; }
GYRE_WORD I min(I a, I b) { return {_mm512_min_epi32(a.v, b.v)}; }

GYRE_WORD M less(F a, F b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
GYRE_WORD M equal(F a, F b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ)}; }
GYRE_WORD M above(I a, I b) { return {_mm512_cmpgt_epi32_mask(a.v, b.v)}; }
GYRE_WORD M operator&(M a, M b) { return {static_cast<__mmask16>(a.v & b.v)}; }
GYRE_WORD M operator|(M a, M b) { return {static_cast<__mmask16>(a.v | b.v)}; }
GYRE_WORD bool any(M m) { return m.v != 0; }
GYRE_WORD M first_lanes(uint32_t n) { return {static_cast<__mmask16>((1u << n) - 1)}; }
GYRE_WORD F select(M m, F a, F b) { return {_mm512_mask_blend_ps(m.v, b.v, a.v)}; }
GYRE_WORD I select(M m, I a, I b) { return {_mm512_mask_blend_epi32(m.v, b.v, a.v)}; }

GYRE_WORD I bits(F a) { return {_mm512_castps_si512(a.v)}; }
GYRE_WORD F from_bits(I a) { return {_mm512_castsi512_ps(a.v)}; }
GYRE_WORD F to_float(I a) { return {_mm512_cvtepi32_ps(a.v)}; }
GYRE_WORD I round_to_int(F a) { return {_mm512_cvtps_epi32(a.v)}; }

GYRE_WORD F load_f(const float* p) { return {_mm512_loadu_ps(p)}; }
GYRE_WORD I load_i(const int32_t* p) { return {_mm512_loadu_si512(p)}; }
GYRE_WORD void store(float* p, F a) { _mm512_storeu_ps(p, a.v); }
GYRE_WORD void store(int32_t* p, I a) { _mm512_storeu_si512(p, a.v); }
GYRE_WORD F load_first(const float* p, uint32_t n) {
  return {_mm512_maskz_loadu_ps(first_lanes(n).v, p)};
}
GYRE_WORD void store_first(float* p, F a, uint32_t n) {
  _mm512_mask_storeu_ps(p, first_lanes(n).v, a.v);
}
GYRE_WORD I load_u8(const void* p) {
  return {_mm512_cvtepu8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)))};
}
GYRE_WORD I load_i8(const void* p) {
  return {_mm512_cvtepi8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)))};
}
GYRE_WORD I load_u16(const void* p) {
  return {_mm512_cvtepu16_epi32(_mm256_loadu_si256(static_cast<const __m256i*>(p)))};
}
GYRE_WORD F load_f16(const void* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p)))};
}
GYRE_WORD F load_bf16(const void* p) { return from_bits(shift_left<16>(load_u16(p))); }
GYRE_WORD void store_i8(void* p, I a) {
  _mm_storeu_si128(static_cast<__m128i*>(p), _mm512_cvtepi32_epi8(a.v));
}
GYRE_WORD void store_u16(void* p, I a) {
  _mm256_storeu_si256(static_cast<__m256i*>(p), _mm512_cvtepi32_epi16(a.v));
}

GYRE_WORD __m256 half_low(F a) { return _mm512_castps512_ps256(a.v); }
GYRE_WORD __m256 half_high(F a) { return _mm512_extractf32x8_ps(a.v, 1); }
GYRE_WORD float sum_lanes(F a) {
  const __m256 h = _mm256_add_ps(half_low(a), half_high(a));
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
GYRE_WORD int32_t sum_lanes(I a) { return _mm512_reduce_add_epi32(a.v); }
GYRE_WORD int32_t max_lanes(I a) { return _mm512_reduce_max_epi32(a.v); }

GYRE_WORD I splat4(const void* p) {
  int32_t x;
  std::memcpy(&x, p, 4);
  return I::splat(x);
}
GYRE_WORD I dot4(I acc, B w, I x) { return {_mm512_dpbusd_epi32(acc.v, w.v, x.v)}; }
GYRE_WORD I dot4_wide(I acc, B w, I x) { return dot4(acc, w, x); }

// One int32 dot per lane over the lines of a block, in the order add() gets them. Codes are at most
// kMaxCode, or any byte where kWide. acc() needs finish() first.
template <bool kWide, int kMaxCode>
struct Dots {
  I sum;
  GYRE_WORD void start(I from) { sum = from; }
  GYRE_WORD void add(int, B w, I x) { sum = kWide ? dot4_wide(sum, w, x) : dot4(sum, w, x); }
  GYRE_WORD void finish() {}
};
GYRE_WORD I keep(I a) {
  asm("" : "+v"(a.v));
  return a;
}

GYRE_WORD F low_of_pair(I a) { return from_bits(shift_left<16>(a)); }
GYRE_WORD F high_of_pair(I a) { return from_bits(a & I::splat(-0x10000)); }
GYRE_WORD F fma_pair(F s, I w, I x) {
  s = fma(high_of_pair(w), high_of_pair(x), s);
  return fma(low_of_pair(w), low_of_pair(x), s);
}
#if defined(GYRE_TARGET_avx512)
// The same bits in one instruction; fast on AMD, slower than fma_pair on Intel (cpu/tuning.h).
GYRE_WORD F fma_pair_native(F s, I w, I x) {
  return {_mm512_dpbf16_ps(s.v, (__m512bh)w.v, (__m512bh)x.v)};
}
#else
GYRE_WORD F fma_pair_native(F s, I w, I x) { return fma_pair(s, w, x); }
#endif

GYRE_WORD B load_line(const void* p) { return {_mm512_load_si512(p)}; }
GYRE_WORD void store_line(void* p, B a) { _mm512_store_si512(p, a.v); }
GYRE_WORD B operator&(B a, B b) { return {_mm512_and_si512(a.v, b.v)}; }
GYRE_WORD B operator|(B a, B b) { return {_mm512_or_si512(a.v, b.v)}; }
GYRE_WORD B operator^(B a, B b) { return {_mm512_xor_si512(a.v, b.v)}; }
GYRE_WORD B operator+(B a, B b) { return {_mm512_add_epi8(a.v, b.v)}; }
GYRE_WORD B operator-(B a, B b) { return {_mm512_sub_epi8(a.v, b.v)}; }
template <int n>
GYRE_WORD B byte_shift_right(B a) {
  return B{_mm512_srli_epi16(a.v, n)} & B::splat(0xff >> n);
}
template <int n>
GYRE_WORD B byte_shift_left(B a) {
  return B{_mm512_slli_epi16(a.v, n)} & B::splat(static_cast<uint8_t>(0xff << n));
}
GYRE_WORD B nibble_low(B a) { return a & B::splat(15); }
GYRE_WORD B nibble_high(B a) { return byte_shift_right<4>(a); }
GYRE_WORD B look_up(const uint8_t* table, B nibbles) {
  const __m128i t = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
  return {_mm512_shuffle_epi8(_mm512_broadcast_i32x4(t), nibbles.v)};
}
GYRE_WORD B bit_spread(const void* p) {
  uint64_t m;
  std::memcpy(&m, p, 8);
  return {_mm512_movm_epi8(m)};
}
// 16 bytes, one for each lane, in all 4 bytes of the lane.
GYRE_WORD B splat_lane_bytes(const void* p) {
  return {_mm512_mullo_epi32(load_u8(p).v, _mm512_set1_epi32(0x01010101))};
}
GYRE_WORD I as_int(B a) { return {a.v}; }
template <int bytes>
GYRE_WORD I repeat(const void* p) {
  if constexpr (bytes == 32) {
    return {_mm512_broadcast_i64x4(_mm256_loadu_si256(static_cast<const __m256i*>(p)))};
  } else if constexpr (bytes == 16) {
    return {_mm512_broadcast_i32x4(_mm_loadu_si128(static_cast<const __m128i*>(p)))};
  } else {
    int64_t x;
    std::memcpy(&x, p, 8);
    return {_mm512_set1_epi64(x)};
  }
}
template <int n>
GYRE_WORD F swap_lanes(F a) {
  if constexpr (n == 1) return {_mm512_permute_ps(a.v, 0xb1)};
  if constexpr (n == 2) return {_mm512_permute_ps(a.v, 0x4e)};
  if constexpr (n == 4) return {_mm512_shuffle_f32x4(a.v, a.v, 0xb1)};
  return {_mm512_shuffle_f32x4(a.v, a.v, 0x4e)};
}
inline constexpr bool kLooksUpWords = true;
template <int bits>
GYRE_WORD I look_up_pairs(const uint16_t* table, I i) {
  const __m512i* t = reinterpret_cast<const __m512i*>(table);
  if constexpr (bits <= 5) return {_mm512_permutexvar_epi16(i.v, _mm512_loadu_si512(t))};
  if constexpr (bits == 6)
    return {_mm512_permutex2var_epi16(_mm512_loadu_si512(t), i.v, _mm512_loadu_si512(t + 1))};
  __m512i quarter[4];
  for (int q = 0; q < 4; ++q)
    quarter[q] = _mm512_permutex2var_epi16(_mm512_loadu_si512(t + 2 * q), i.v,
                                           _mm512_loadu_si512(t + 2 * q + 1));
  const __mmask32 odd = _mm512_test_epi16_mask(i.v, _mm512_set1_epi16(0x40));
  const __mmask32 high = _mm512_test_epi16_mask(i.v, _mm512_set1_epi16(0x80));
  return {_mm512_mask_blend_epi16(high, _mm512_mask_blend_epi16(odd, quarter[0], quarter[1]),
                                  _mm512_mask_blend_epi16(odd, quarter[2], quarter[3]))};
}
GYRE_WORD B scale_bytes(B a, I n) { return {_mm512_mullo_epi16(a.v, n.v)}; }
GYRE_WORD B as_bytes(I a) { return {a.v}; }
GYRE_WORD void prefetch_l2(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1); }
GYRE_WORD void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }
GYRE_WORD F even_lanes(F a) { return {_mm512_moveldup_ps(a.v)}; }
GYRE_WORD F odd_lanes(F a) { return {_mm512_movehdup_ps(a.v)}; }
