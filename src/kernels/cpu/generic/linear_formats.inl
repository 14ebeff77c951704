// The decode policies of the weight formats: small, one per format. Included in a target region.
//
//   Family          the arithmetic (linear_families.inl)
//   kWide           codes above 127: dot4_wide, and code - 128 where kSignedBytes
//   kZero           the dot's zero point: what its bytes exceed the weights' integers by
//   kMax            no byte exceeds it
//   Swept           another policy of the same bytes for many columns, if that pays
//   lines(part, b, w)      the 8 lines of block b: w[j] holds k = 4 j .. 4 j + 3 of 16 rows
//   vectors(part, b, v)    the block's row vectors, as the family orders them
//   ends(part, v)          super-blocks: d and -dmin

// The fields of one segment of a panel.
struct Part {
  const uint8_t* field[4];
};

template <DType kType>
GYRE_WORD Part part_of(const uint8_t* panel, uint32_t segment, uint32_t blocks) {
  constexpr PanelLayout kLayout = panel_layout(kType);
  const uint8_t* start = panel + segment_offset(kLayout, segment);
  Part part = {};
  for (int f = 0; f < kLayout.count; ++f) part.field[f] = start + field_offset(kLayout, f, blocks);
  if constexpr (kLayout.paired_tail)
    part.field[kLayout.count - 1] = start + paired_tail_offset(kLayout, segment);
  return part;
}

// Blocks of 16 bytes a row: low nibbles are lines 0 - 3, high nibbles lines 4 - 7.
GYRE_WORD void nibble_lines(const uint8_t* codes, B* w) {
  for (int i = 0; i < 4; ++i) {
    const B q = load_line(codes + 64 * i);
    w[i] = nibble_low(q);
    w[i + 4] = nibble_high(q);
  }
}
GYRE_WORD void table_lines(const uint8_t* codes, const uint8_t* table, B* w) {
  nibble_lines(codes, w);
  for (int j = 0; j < 8; ++j) w[j] = look_up(table, w[j]);
}
GYRE_WORD void add_mask_bits(const uint8_t* masks, uint8_t worth, B* w) {
  for (int j = 0; j < 8; ++j) w[j] = w[j] | (bit_spread(masks + 8 * j) & B::splat(worth));
}
// 8 lines of which block b's bits start at bit `shift`.
GYRE_WORD B bits_at(const uint8_t* line, int shift, uint8_t mask) {
  return as_bytes(shift_right(as_int(load_line(line)), I::splat(shift))) & B::splat(mask);
}
// Bits `from` of each byte moved to `to` (less than 8 places apart), the rest masked.
GYRE_WORD B bits_moved(const uint8_t* line, int from, int to, uint8_t mask) {
  const I a = as_int(load_line(line));
  const I moved =
      from >= to ? shift_right(a, I::splat(from - to)) : shift_left(a, I::splat(to - from));
  return as_bytes(moved) & B::splat(mask);
}
GYRE_WORD B shifted_left(B a, int shift) {
  return as_bytes(shift_left(as_int(a), I::splat(shift)));
}

struct Q4_0 {
  static constexpr DType kType = DType::q4_0;
  using Family = Scaled<false>;
  static constexpr bool kWide = false;
  static constexpr int kZero = 8, kMax = 15;
  using Swept = Q4_0;
  static GYRE_WORD void lines(const Part& p, int b, B* w) { nibble_lines(p.field[0] + 256 * b, w); }
  static GYRE_WORD void vectors(const Part& p, int b, F* v) {
    v[0] = load_f16(p.field[1] + 32 * b);
  }
};

struct Q4_1 {
  static constexpr DType kType = DType::q4_1;
  using Family = Scaled<true>;
  static constexpr bool kWide = false;
  static constexpr int kZero = 0, kMax = 15;
  using Swept = Q4_1;
  static GYRE_WORD void lines(const Part& p, int b, B* w) { nibble_lines(p.field[0] + 256 * b, w); }
  static GYRE_WORD void vectors(const Part& p, int b, F* v) {
    v[0] = load_f16(p.field[1] + 32 * b);
    v[1] = load_f16(p.field[2] + 32 * b);
  }
};

struct Q5_0 {
  static constexpr DType kType = DType::q5_0;
  using Family = Scaled<false>;
  static constexpr bool kWide = false;
  static constexpr int kZero = 16, kMax = 31;
  using Swept = Q5_0;
  static GYRE_WORD void lines(const Part& p, int b, B* w) {
    nibble_lines(p.field[0] + 256 * b, w);
    add_mask_bits(p.field[1] + 64 * b, 16, w);
  }
  static GYRE_WORD void vectors(const Part& p, int b, F* v) {
    v[0] = load_f16(p.field[2] + 32 * b);
  }
};

struct Q5_1 {
  static constexpr DType kType = DType::q5_1;
  using Family = Scaled<true>;
  static constexpr bool kWide = false;
  static constexpr int kZero = 0, kMax = 31;
  using Swept = Q5_1;
  static GYRE_WORD void lines(const Part& p, int b, B* w) {
    nibble_lines(p.field[0] + 256 * b, w);
    add_mask_bits(p.field[1] + 64 * b, 16, w);
  }
  static GYRE_WORD void vectors(const Part& p, int b, F* v) {
    v[0] = load_f16(p.field[2] + 32 * b);
    v[1] = load_f16(p.field[3] + 32 * b);
  }
};

struct Q8_0 {
  static constexpr DType kType = DType::q8_0;
  using Family = Scaled<false>;
  static constexpr bool kWide = true;
  static constexpr int kZero = 128, kMax = 255;
  using Swept = Q8_0;
  static GYRE_WORD void lines(const Part& p, int b, B* w) {
    for (int j = 0; j < 8; ++j) {
      w[j] = load_line(p.field[0] + 512 * b + 64 * j);
      if constexpr (kSignedBytes) w[j] = w[j] ^ B::splat(0x80);
    }
  }
  static GYRE_WORD void vectors(const Part& p, int b, F* v) {
    v[0] = load_f16(p.field[1] + 32 * b);
  }
};

// The codebook of IQ4_NL and IQ4_XS, as signed bytes or plus 128.
GYRE_WORD void iq4_lines(const uint8_t* codes, B* w) {
  alignas(16) static constexpr uint8_t kTable[2][16] = {
      {1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241},
      {129, 152, 173, 191, 207, 221, 234, 246, 1, 13, 25, 38, 53, 69, 89, 113}};
  table_lines(codes, kTable[kSignedBytes ? 1 : 0], w);
}

struct Iq4Nl {
  static constexpr DType kType = DType::iq4_nl;
  using Family = Scaled<false>;
  static constexpr bool kWide = true;
  static constexpr int kZero = 128, kMax = 255;
  using Swept = Iq4Nl;
  static GYRE_WORD void lines(const Part& p, int b, B* w) { iq4_lines(p.field[0] + 256 * b, w); }
  static GYRE_WORD void vectors(const Part& p, int b, F* v) {
    v[0] = load_f16(p.field[1] + 32 * b);
  }
};

struct Mxfp4 {
  static constexpr DType kType = DType::mxfp4;
  using Family = Scaled<false>;
  static constexpr bool kWide = false;
  static constexpr int kZero = 12, kMax = 24;
  using Swept = Mxfp4;
  static GYRE_WORD void lines(const Part& p, int b, B* w) {
    alignas(16) static constexpr uint8_t kTable[16] = {12, 13, 14, 15, 16, 18, 20, 24,
                                                       12, 11, 10, 9,  8,  6,  4,  0};
    table_lines(p.field[0] + 256 * b, kTable, w);
  }
  // 2^(e - 128); e = 0 and 1 give subnormals.
  static GYRE_WORD void vectors(const Part& p, int b, F* v) {
    const I e = load_u8(p.field[1] + 16 * b);
    const I tiny = select(above(e, I::splat(0)), I::splat(0x00400000), I::splat(0x00200000));
    const I normal = shift_left<23>(e - I::splat(1));
    v[0] = from_bits(select(above(I::splat(2), e), tiny, normal));
  }
};

// Super-blocks of groups of 32: v = sub_scale, -12582912 sub_scale (, sub_min).
GYRE_WORD void scale_vectors(I sub_scale, F* v) {
  v[0] = to_float(sub_scale);
  v[1] = v[0] * F::splat(-kMagic);
}
GYRE_WORD I word_line(const uint8_t* p) {
  return as_int(load_line(p));
}
GYRE_WORD I bits_of(I word, int shift, int mask) {
  return shift_right(word, I::splat(shift)) & I::splat(mask);
}

// Q4_K's and Q5_K's 12 bytes of scales and minima, as three words of a row.
GYRE_WORD void six_bit_vectors(const uint8_t* words, int b, F* v) {
  const I w0 = word_line(words), w1 = word_line(words + 64), w2 = word_line(words + 128);
  const int at = 8 * (b & 3);
  if (b < 4) {
    scale_vectors(bits_of(w0, at, 63), v);
    v[2] = to_float(bits_of(w1, at, 63));
  } else {
    scale_vectors(bits_of(w2, at, 15) | shift_left<4>(bits_of(w0, at + 6, 3)), v);
    v[2] = to_float(bits_of(w2, at + 4, 15) | shift_left<4>(bits_of(w1, at + 6, 3)));
  }
}

// 32 bytes of a row serve two blocks: low nibbles, then high nibbles.
GYRE_WORD void paired_nibble_lines(const uint8_t* codes, int b, B* w) {
  for (int j = 0; j < 8; ++j) w[j] = bits_at(codes + 512 * (b / 2) + 64 * j, 4 * (b & 1), 15);
}

struct Q4_K {
  static constexpr DType kType = DType::q4_k;
  using Family = Super32<true>;
  static constexpr bool kWide = false;
  static constexpr int kZero = 0, kMax = 15;
  using Swept = Q4_K;
  static GYRE_WORD void lines(const Part& p, int b, B* w) { paired_nibble_lines(p.field[0], b, w); }
  static GYRE_WORD void vectors(const Part& p, int b, F* v) { six_bit_vectors(p.field[1], b, v); }
  static GYRE_WORD void ends(const Part& p, F* v) {
    v[0] = load_f16(p.field[2]);
    v[1] = -load_f16(p.field[2] + 32);
  }
};

struct Q5_K {
  static constexpr DType kType = DType::q5_k;
  using Family = Super32<true>;
  static constexpr bool kWide = false;
  static constexpr int kZero = 0, kMax = 31;
  using Swept = Q5_K;
  static GYRE_WORD void lines(const Part& p, int b, B* w) {
    paired_nibble_lines(p.field[0], b, w);
    for (int j = 0; j < 8; ++j)
      w[j] = w[j] | byte_shift_left<4>(bits_at(p.field[1] + 64 * j, b, 1));
  }
  static GYRE_WORD void vectors(const Part& p, int b, F* v) { six_bit_vectors(p.field[2], b, v); }
  static GYRE_WORD void ends(const Part& p, F* v) {
    v[0] = load_f16(p.field[3]);
    v[1] = -load_f16(p.field[3] + 32);
  }
};

struct Iq4Xs {
  static constexpr DType kType = DType::iq4_xs;
  using Family = Super32<false>;
  static constexpr bool kWide = true;
  static constexpr int kZero = 128, kMax = 255;
  using Swept = Iq4Xs;
  static GYRE_WORD void lines(const Part& p, int b, B* w) { iq4_lines(p.field[0] + 256 * b, w); }
  static GYRE_WORD void vectors(const Part& p, int b, F* v) {
    const I low = bits_of(word_line(p.field[1]), 4 * b, 15);
    const I high = bits_of(load_u16(p.field[2]), 2 * b, 3);
    scale_vectors((low | shift_left<4>(high)) - I::splat(32), v);
  }
  static GYRE_WORD void ends(const Part& p, F* v) { v[0] = load_f16(p.field[3]); }
};

// 64 bytes of a row hold 256 bit pairs: each 32 bytes serve 4 blocks.
GYRE_WORD B pair_bits(const uint8_t* pairs, int b, int j) {
  return bits_at(pairs + 512 * (b / 4) + 64 * j, 2 * (b & 3), 3);
}

struct Q6_K {
  static constexpr DType kType = DType::q6_k;
  using Family = Super16<false>;
  static constexpr bool kWide = false;
  static constexpr int kZero = 32, kMax = 63;
  using Swept = Q6_K;
  // 64 bytes of a row serve 4 blocks: low nibbles of both halves, then high nibbles.
  static GYRE_WORD void lines(const Part& p, int b, B* w) {
    const uint8_t* codes = p.field[0] + 1024 * (b / 4) + 512 * (b & 1);
    for (int j = 0; j < 8; ++j) {
      const B low = bits_at(codes + 64 * j, 4 * ((b & 3) / 2), 15);
      const B high = bits_moved(p.field[1] + 512 * (b / 4) + 64 * j, 2 * (b & 3), 4, 0x30);
      w[j] = low | high;
    }
  }
  static GYRE_WORD void vectors(const Part& p, int b, F* v) {
    const I word = word_line(p.field[2] + 64 * (b / 2));
    const int left = 24 - 16 * (b & 1);
    scale_vectors(shift_right_signed<24>(shift_left(word, I::splat(left))), v);
    scale_vectors(shift_right_signed<24>(shift_left(word, I::splat(left - 8))), v + 2);
  }
  static GYRE_WORD void ends(const Part& p, F* v) { v[0] = load_f16(p.field[3]); }
};

// (code - 4) * sub_scale + 127 is a byte: 3 .. 255. Modulo 256, with the scale's 6 bits n and code
// = low + 4 high: low n + high 4 n - 32 code - 4 n + 255; each product fits a byte, so the bytes
// of a lane multiply at once.
struct Q3_KFolded {
  static constexpr DType kType = DType::q3_k;
  using Family = Folded16<false>;
  static constexpr bool kWide = true;
  static constexpr int kZero = 127, kMax = 255;
  static GYRE_WORD void lines(const Part& p, int b, B* w);
  static GYRE_WORD void vectors(const Part&, int, F* v) { v[0] = v[1] = F::splat(0.0f); }
  static GYRE_WORD void ends(const Part& p, F* v) { v[0] = load_f16(p.field[3]); }
};

struct Q3_K {
  static constexpr DType kType = DType::q3_k;
  using Family = Super16<false>;
  static constexpr bool kWide = false;
  static constexpr int kZero = 4, kMax = 7;
  using Swept = Q3_KFolded;
  static GYRE_WORD void lines(const Part& p, int b, B* w) {
    for (int j = 0; j < 8; ++j) {
      const B high = byte_shift_left<2>(bits_at(p.field[1] + 64 * j, b, 1));
      w[j] = pair_bits(p.field[0], b, j) | high;
    }
  }
  // Group g: a nibble of byte g % 8, its two high bits at bit pair g / 4 of byte 8 + g % 4.
  static GYRE_WORD I sub_scale_bits(const Part& p, int g) {
    const I low = bits_of(word_line(p.field[2] + 64 * (g % 8 / 4)), 8 * (g % 4) + 4 * (g / 8), 15);
    const I high = bits_of(word_line(p.field[2] + 128), 8 * (g % 4) + 2 * (g / 4), 3);
    return low | shift_left<4>(high);
  }
  static GYRE_WORD void vectors(const Part& p, int b, F* v) {
    scale_vectors(sub_scale_bits(p, 2 * b) - I::splat(32), v);
    scale_vectors(sub_scale_bits(p, 2 * b + 1) - I::splat(32), v + 2);
  }
  static GYRE_WORD void ends(const Part& p, F* v) { v[0] = load_f16(p.field[3]); }
};

GYRE_WORD void Q3_KFolded::lines(const Part& p, int b, B* w) {
  const I bytes = I::splat(0x01010101);
  for (int g = 0; g < 2; ++g) {
    const I n = Q3_K::sub_scale_bits(p, 2 * b + g), n_twice = n | shift_left<16>(n);
    const B base = B::splat(kSignedBytes ? 127 : 255) - as_bytes(shift_left<2>(n) * bytes);
    for (int j = 4 * g; j < 4 * g + 4; ++j) {
      const B low = pair_bits(p.field[0], b, j), high = bits_at(p.field[1] + 64 * j, b, 1);
      const B code = low | byte_shift_left<2>(high);
      const B products = scale_bytes(low, n_twice) + scale_bytes(high, shift_left<2>(n_twice));
      w[j] = products + base - byte_shift_left<5>(code);
    }
  }
}

// code * sub_scale <= 45 is a byte; the bytes of a lane multiply at once.
struct Q2_KFolded {
  static constexpr DType kType = DType::q2_k;
  using Family = Folded16<true>;
  static constexpr bool kWide = false;
  static constexpr int kZero = 0, kMax = 45;
  static GYRE_WORD void lines(const Part& p, int b, B* w) {
    const I word = word_line(p.field[1] + 64 * (b / 2));
    for (int g = 0; g < 2; ++g) {
      const I n = bits_of(word, 16 * (b & 1) + 8 * g, 15), n_twice = n | shift_left<16>(n);
      for (int j = 4 * g; j < 4 * g + 4; ++j)
        w[j] = scale_bytes(pair_bits(p.field[0], b, j), n_twice);
    }
  }
  static GYRE_WORD void vectors(const Part& p, int b, F* v) {
    const I word = word_line(p.field[1] + 64 * (b / 2));
    v[0] = to_float(bits_of(word, 16 * (b & 1) + 4, 15));
    v[1] = to_float(bits_of(word, 16 * (b & 1) + 12, 15));
  }
  static GYRE_WORD void ends(const Part& p, F* v) {
    v[0] = load_f16(p.field[2]);
    v[1] = -load_f16(p.field[2] + 32);
  }
};

struct Q2_K {
  static constexpr DType kType = DType::q2_k;
  using Family = Super16<true>;
  static constexpr bool kWide = false;
  static constexpr int kZero = 0, kMax = 3;
  using Swept = Q2_KFolded;
  static GYRE_WORD void lines(const Part& p, int b, B* w) {
    for (int j = 0; j < 8; ++j) w[j] = pair_bits(p.field[0], b, j);
  }
  static GYRE_WORD void vectors(const Part& p, int b, F* v) {
    const I word = word_line(p.field[1] + 64 * (b / 2));
    const int at = 16 * (b & 1);
    scale_vectors(bits_of(word, at, 15), v);
    scale_vectors(bits_of(word, at + 8, 15), v + 2);
    v[4] = to_float(bits_of(word, at + 4, 15));
    v[5] = to_float(bits_of(word, at + 12, 15));
  }
  static GYRE_WORD void ends(const Part& p, F* v) {
    v[0] = load_f16(p.field[2]);
    v[1] = -load_f16(p.field[2] + 32);
  }
};
