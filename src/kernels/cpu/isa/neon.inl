// One word, one line:
// clang-format off
// The vocabulary (isa/begin.h) in NEON with dot product: four registers for each word.
// M holds all ones or zeros in each 32 bits.

struct I {
  int32x4_t v[4];
  static GYRE_WORD I splat(int32_t x) {
    const int32x4_t s = vdupq_n_s32(x);
    return {{s, s, s, s}};
  }
};
struct F {
  float32x4_t v[4];
  static GYRE_WORD F splat(float x) {
    const float32x4_t s = vdupq_n_f32(x);
    return {{s, s, s, s}};
  }
};
struct M {
  uint32x4_t v[4];
};
struct B {
  uint8x16_t v[4];
  static GYRE_WORD B splat(uint8_t x) {
    const uint8x16_t s = vdupq_n_u8(x);
    return {{s, s, s, s}};
  }
};
// The linear kernels' tile: panels, columns, columns of formats with two dots a block.
inline constexpr int kTilePanels = 1, kTileColumns = 4, kTileColumnsOfPairs = 4;
inline constexpr uint32_t kStreamColumns = 4;  // up to this many, weights go straight to registers
inline constexpr bool kChainsAtOnce = false;
inline constexpr bool kSignedBytes = true;
inline constexpr bool kBf16Dot = false;

// One word from the four registers' results; x, y, z name the arguments' registers.
#define GYRE_EACH(R, expression)                  \
  {                                               \
    R r;                                          \
    for (int i = 0; i < 4; ++i) r.v[i] = expression; \
    return r;                                     \
  }
GYRE_WORD F operator+(F x, F y) GYRE_EACH(F, vaddq_f32(x.v[i], y.v[i]))
GYRE_WORD F operator-(F x, F y) GYRE_EACH(F, vsubq_f32(x.v[i], y.v[i]))
GYRE_WORD F operator*(F x, F y) GYRE_EACH(F, vmulq_f32(x.v[i], y.v[i]))
GYRE_WORD F operator/(F x, F y) GYRE_EACH(F, vdivq_f32(x.v[i], y.v[i]))
GYRE_WORD F operator-(F x) GYRE_EACH(F, vnegq_f32(x.v[i]))
GYRE_WORD F fma(F x, F y, F z) GYRE_EACH(F, vfmaq_f32(z.v[i], x.v[i], y.v[i]))
GYRE_WORD F sqrt(F x) GYRE_EACH(F, vsqrtq_f32(x.v[i]))
GYRE_WORD F min(F x, F y) GYRE_EACH(F, vminq_f32(x.v[i], y.v[i]))
GYRE_WORD F max(F x, F y) GYRE_EACH(F, vmaxq_f32(x.v[i], y.v[i]))

GYRE_WORD I operator+(I x, I y) GYRE_EACH(I, vaddq_s32(x.v[i], y.v[i]))
GYRE_WORD I operator-(I x, I y) GYRE_EACH(I, vsubq_s32(x.v[i], y.v[i]))
GYRE_WORD I operator*(I x, I y) GYRE_EACH(I, vmulq_s32(x.v[i], y.v[i]))
GYRE_WORD I operator&(I x, I y) GYRE_EACH(I, vandq_s32(x.v[i], y.v[i]))
GYRE_WORD I operator|(I x, I y) GYRE_EACH(I, vorrq_s32(x.v[i], y.v[i]))
GYRE_WORD I operator^(I x, I y) GYRE_EACH(I, veorq_s32(x.v[i], y.v[i]))
template <int n>
GYRE_WORD I shift_left(I x) GYRE_EACH(I, vshlq_n_s32(x.v[i], n))
GYRE_WORD I shift_left(I x, I n) GYRE_EACH(I, vshlq_s32(x.v[i], n.v[i]))
template <int n>
GYRE_WORD I shift_right(I x)
    GYRE_EACH(I, vreinterpretq_s32_u32(vshrq_n_u32(vreinterpretq_u32_s32(x.v[i]), n)))
GYRE_WORD I shift_right(I x, I n)
    GYRE_EACH(I, vreinterpretq_s32_u32(vshlq_u32(vreinterpretq_u32_s32(x.v[i]), vnegq_s32(n.v[i]))))
template <int n>
GYRE_WORD I shift_right_signed(I x) GYRE_EACH(I, vshrq_n_s32(x.v[i], n))
GYRE_WORD I max(I x, I y) GYRE_EACH(I, vmaxq_s32(x.v[i], y.v[i]))
GYRE_WORD I min(I x, I y) GYRE_EACH(I, vminq_s32(x.v[i], y.v[i]))

GYRE_WORD I bits(F x) GYRE_EACH(I, vreinterpretq_s32_f32(x.v[i]))
GYRE_WORD F from_bits(I x) GYRE_EACH(F, vreinterpretq_f32_s32(x.v[i]))
GYRE_WORD F to_float(I x) GYRE_EACH(F, vcvtq_f32_s32(x.v[i]))
GYRE_WORD I round_to_int(F x) GYRE_EACH(I, vcvtnq_s32_f32(x.v[i]))

GYRE_WORD M less(F x, F y) GYRE_EACH(M, vcltq_f32(x.v[i], y.v[i]))
GYRE_WORD M equal(F x, F y) GYRE_EACH(M, vceqq_f32(x.v[i], y.v[i]))
GYRE_WORD M above(I x, I y) GYRE_EACH(M, vcgtq_s32(x.v[i], y.v[i]))
GYRE_WORD M operator&(M x, M y) GYRE_EACH(M, vandq_u32(x.v[i], y.v[i]))
GYRE_WORD M operator|(M x, M y) GYRE_EACH(M, vorrq_u32(x.v[i], y.v[i]))
GYRE_WORD bool any(M m) {
  return vmaxvq_u32(vorrq_u32(vorrq_u32(m.v[0], m.v[1]), vorrq_u32(m.v[2], m.v[3]))) != 0;
}
GYRE_WORD M first_lanes(uint32_t n) {
  const uint32_t first[4] = {0, 1, 2, 3};
  const uint32x4_t lane = vld1q_u32(first), end = vdupq_n_u32(n);
  GYRE_EACH(M, vcltq_u32(vaddq_u32(lane, vdupq_n_u32(static_cast<uint32_t>(4 * i))), end))
}
GYRE_WORD F select(M m, F x, F y) GYRE_EACH(F, vbslq_f32(m.v[i], x.v[i], y.v[i]))
GYRE_WORD I select(M m, I x, I y) GYRE_EACH(I, vbslq_s32(m.v[i], x.v[i], y.v[i]))

GYRE_WORD F load_f(const float* p) GYRE_EACH(F, vld1q_f32(p + 4 * i))
GYRE_WORD I load_i(const int32_t* p) GYRE_EACH(I, vld1q_s32(p + 4 * i))
GYRE_WORD void store(float* p, F x) {
  for (int i = 0; i < 4; ++i) vst1q_f32(p + 4 * i, x.v[i]);
}
GYRE_WORD void store(int32_t* p, I x) {
  for (int i = 0; i < 4; ++i) vst1q_s32(p + 4 * i, x.v[i]);
}
GYRE_WORD F load_first(const float* p, uint32_t n) {
  float t[16] = {};
  std::memcpy(t, p, n * sizeof(float));
  return load_f(t);
}
GYRE_WORD void store_first(float* p, F x, uint32_t n) {
  float t[16];
  store(t, x);
  std::memcpy(p, t, n * sizeof(float));
}
GYRE_WORD I widen(uint16x8_t a, uint16x8_t b) {
  return {{vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(a))),
           vreinterpretq_s32_u32(vmovl_u16(vget_high_u16(a))),
           vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(b))),
           vreinterpretq_s32_u32(vmovl_u16(vget_high_u16(b)))}};
}
GYRE_WORD I load_u8(const void* p) {
  const uint8x16_t x = vld1q_u8(static_cast<const uint8_t*>(p));
  return widen(vmovl_u8(vget_low_u8(x)), vmovl_u8(vget_high_u8(x)));
}
GYRE_WORD I load_i8(const void* p) {
  return shift_right_signed<24>(shift_left<24>(load_u8(p)));
}
GYRE_WORD uint16x8_t load_8_u16(const void* p) {
  return vreinterpretq_u16_u8(vld1q_u8(static_cast<const uint8_t*>(p)));
}
GYRE_WORD I load_u16(const void* p) {
  return widen(load_8_u16(p), load_8_u16(static_cast<const uint8_t*>(p) + 16));
}
GYRE_WORD F load_f16(const void* p) {
  const float16x8_t a = vreinterpretq_f16_u16(load_8_u16(p));
  const float16x8_t b = vreinterpretq_f16_u16(load_8_u16(static_cast<const uint8_t*>(p) + 16));
  return {{vcvt_f32_f16(vget_low_f16(a)), vcvt_f32_f16(vget_high_f16(a)),
           vcvt_f32_f16(vget_low_f16(b)), vcvt_f32_f16(vget_high_f16(b))}};
}
GYRE_WORD F load_bf16(const void* p) { return from_bits(shift_left<16>(load_u16(p))); }
GYRE_WORD uint16x8_t narrow(int32x4_t a, int32x4_t b) {
  return vcombine_u16(vmovn_u32(vreinterpretq_u32_s32(a)), vmovn_u32(vreinterpretq_u32_s32(b)));
}
GYRE_WORD void store_u16(void* p, I x) {
  uint8_t* q = static_cast<uint8_t*>(p);
  vst1q_u8(q, vreinterpretq_u8_u16(narrow(x.v[0], x.v[1])));
  vst1q_u8(q + 16, vreinterpretq_u8_u16(narrow(x.v[2], x.v[3])));
}
GYRE_WORD void store_i8(void* p, I x) {
  vst1q_u8(static_cast<uint8_t*>(p), vcombine_u8(vmovn_u16(narrow(x.v[0], x.v[1])),
                                                 vmovn_u16(narrow(x.v[2], x.v[3]))));
}

GYRE_WORD float sum_lanes(F x) {
  const float32x4_t h = vaddq_f32(vaddq_f32(x.v[0], x.v[2]), vaddq_f32(x.v[1], x.v[3]));
  const float32x2_t s = vadd_f32(vget_low_f32(h), vget_high_f32(h));
  return vget_lane_f32(s, 0) + vget_lane_f32(s, 1);
}
GYRE_WORD int32_t sum_lanes(I x) {
  return vaddvq_s32(vaddq_s32(vaddq_s32(x.v[0], x.v[1]), vaddq_s32(x.v[2], x.v[3])));
}
GYRE_WORD int32_t max_lanes(I x) {
  return vmaxvq_s32(vmaxq_s32(vmaxq_s32(x.v[0], x.v[1]), vmaxq_s32(x.v[2], x.v[3])));
}

GYRE_WORD I splat4(const void* p) {
  int32_t x;
  std::memcpy(&x, p, 4);
  return I::splat(x);
}
GYRE_WORD I dot4(I acc, B w, I x)
    GYRE_EACH(I, vdotq_s32(acc.v[i], vreinterpretq_s8_u8(w.v[i]), vreinterpretq_s8_s32(x.v[i])))
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
GYRE_WORD I keep(I x) { return x; }
GYRE_WORD F low_of_pair(I x) { return from_bits(shift_left<16>(x)); }
GYRE_WORD F high_of_pair(I x) { return from_bits(x & I::splat(-0x10000)); }
GYRE_WORD F fma_pair(F s, I w, I x) {
  s = fma(high_of_pair(w), high_of_pair(x), s);
  return fma(low_of_pair(w), low_of_pair(x), s);
}
GYRE_WORD F fma_pair_native(F s, I w, I x) { return fma_pair(s, w, x); }

GYRE_WORD B load_line(const void* p) GYRE_EACH(B, vld1q_u8(static_cast<const uint8_t*>(p) + 16 * i))
GYRE_WORD void store_line(void* p, B x) {
  for (int i = 0; i < 4; ++i) vst1q_u8(static_cast<uint8_t*>(p) + 16 * i, x.v[i]);
}
GYRE_WORD I as_int(B x) GYRE_EACH(I, vreinterpretq_s32_u8(x.v[i]))
GYRE_WORD B scale_bytes(B x, I n)
    GYRE_EACH(B, vreinterpretq_u8_u16(vmulq_u16(vreinterpretq_u16_u8(x.v[i]),
                                                vreinterpretq_u16_s32(n.v[i]))))
GYRE_WORD B as_bytes(I x) GYRE_EACH(B, vreinterpretq_u8_s32(x.v[i]))
GYRE_WORD B operator&(B x, B y) GYRE_EACH(B, vandq_u8(x.v[i], y.v[i]))
GYRE_WORD B operator|(B x, B y) GYRE_EACH(B, vorrq_u8(x.v[i], y.v[i]))
GYRE_WORD B operator^(B x, B y) GYRE_EACH(B, veorq_u8(x.v[i], y.v[i]))
GYRE_WORD B operator+(B x, B y) GYRE_EACH(B, vaddq_u8(x.v[i], y.v[i]))
GYRE_WORD B operator-(B x, B y) GYRE_EACH(B, vsubq_u8(x.v[i], y.v[i]))
template <int n>
GYRE_WORD B byte_shift_right(B x) GYRE_EACH(B, vshrq_n_u8(x.v[i], n))
template <int n>
GYRE_WORD B byte_shift_left(B x) GYRE_EACH(B, vshlq_n_u8(x.v[i], n))
GYRE_WORD B nibble_low(B x) { return x & B::splat(15); }
GYRE_WORD B nibble_high(B x) { return byte_shift_right<4>(x); }
GYRE_WORD B look_up(const uint8_t* table, B nibbles)
    GYRE_EACH(B, vqtbl1q_u8(vld1q_u8(table), nibbles.v[i]))
GYRE_WORD B bit_spread(const void* p) {
  const uint8_t bit_of_byte[8] = {1, 2, 4, 8, 16, 32, 64, 128};
  const uint8x16_t bit = vcombine_u8(vld1_u8(bit_of_byte), vld1_u8(bit_of_byte));
  const uint8_t* q = static_cast<const uint8_t*>(p);
  GYRE_EACH(B, vtstq_u8(vcombine_u8(vdup_n_u8(q[2 * i]), vdup_n_u8(q[2 * i + 1])), bit))
}
// 16 bytes, one for each lane, in all 4 bytes of the lane.
GYRE_WORD B splat_lane_bytes(const void* p) { return as_bytes(load_u8(p) * I::splat(0x01010101)); }
GYRE_WORD void prefetch_l2(const void* p) { __builtin_prefetch(p, 0, 2); }
GYRE_WORD void prefetch(const void* p) { __builtin_prefetch(p); }
GYRE_WORD F even_lanes(F x) GYRE_EACH(F, vtrn1q_f32(x.v[i], x.v[i]))
GYRE_WORD F odd_lanes(F x) GYRE_EACH(F, vtrn2q_f32(x.v[i], x.v[i]))
template <int bytes>
GYRE_WORD I repeat(const void* p) {
  const uint8_t* q = static_cast<const uint8_t*>(p);
  if constexpr (bytes == 32) {
    const int32x4_t a = vreinterpretq_s32_u8(vld1q_u8(q));
    const int32x4_t b = vreinterpretq_s32_u8(vld1q_u8(q + 16));
    return {{a, b, a, b}};
  } else {
    const int32x4_t a = vreinterpretq_s32_u8(bytes == 16 ? vld1q_u8(q)
                                                         : vcombine_u8(vld1_u8(q), vld1_u8(q)));
    return {{a, a, a, a}};
  }
}
template <int n>
GYRE_WORD F swap_lanes(F x) {
  if constexpr (n == 1) GYRE_EACH(F, vrev64q_f32(x.v[i]))
  if constexpr (n == 2) GYRE_EACH(F, vextq_f32(x.v[i], x.v[i], 2))
  if constexpr (n == 4) return {{x.v[1], x.v[0], x.v[3], x.v[2]}};
  return {{x.v[2], x.v[3], x.v[0], x.v[1]}};
}
inline constexpr bool kLooksUpWords = false;
template <int bits>
GYRE_WORD I look_up_pairs(const uint16_t* table, I i) {
  int32_t lane[16];
  store(lane, i);
  for (int l = 0; l < 16; ++l)
    lane[l] = static_cast<int32_t>(table[lane[l] & 0xffff] |
                                   static_cast<uint32_t>(table[lane[l] >> 16]) << 16);
  return load_i(lane);
}
#undef GYRE_EACH
