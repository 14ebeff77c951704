// Activation preparation: int8 blocks of 32 and bf16 operands. Included in a target region.

// A block of up to 32 values as two vectors, the tail 0.
struct ActBlock {
  F x[2];
};
GYRE_WORD ActBlock load_block(const float* x, uint32_t n) {
  if (n >= kActBlock) return {{load_f(x), load_f(x + kLanes)}};
  const uint32_t first = std::min(n, kLanes);
  return {{load_first(x, first), load_first(x + first, n - first)}};
}

// The largest magnitude's bits.
GYRE_WORD int32_t magnitude_bits(const ActBlock& b) {
  const I mask = I::splat(0x7fffffff);
  return max_lanes(max(bits(b.x[0]) & mask, bits(b.x[1]) & mask));
}

void quantise_block(const ActBlock& b, float amax, Activations& out, uint32_t block,
                    uint32_t column) {
  const size_t cell = size_t{block} * out.stride + column;
  int32_t* sums = out.sum16 + size_t{block} * 2 * out.stride + column;
  float d = 0.0f, inverse = 0.0f;
  if (amax >= 0x1p-100f) {
    uint32_t scale_bits;
    const float scale = amax / 127.0f;
    std::memcpy(&scale_bits, &scale, 4);
    scale_bits &= ~3u;  // 22 significant bits: 12582912 d is exact (docs/decisions/0003)
    std::memcpy(&d, &scale_bits, 4);
    inverse = 127.0f / amax;
  }
  out.d[cell] = d;
  for (uint32_t h = 0; h < 2; ++h) {
    I q = round_to_int(b.x[h] * F::splat(inverse));
    q = max(min(q, I::splat(127)), I::splat(-127));
    store_i8(out.q + cell * kActBlock + h * kLanes, q);
    sums[h * out.stride] = sum_lanes(q);
  }
}

// bf16 operand bits: nearest even, below 2^-56 +0. Finite values only.
GYRE_WORD I bf16_operand_bits(F x) {
  const I b = bits(x);
  const I odd = shift_right<16>(b) & I::splat(1);
  const I h = shift_right<16>(b + I::splat(0x7fff) + odd);
  return select(above(I::splat(0x2380), h & I::splat(0x7fff)), I::splat(0), h);
}

GYRE_WORD void store_bf16_block(const ActBlock& b, uint32_t n, uint16_t* to) {
  if (n >= kActBlock) {
    store_u16(to, bf16_operand_bits(b.x[0]));
    store_u16(to + kLanes, bf16_operand_bits(b.x[1]));
    return;
  }
  uint16_t h[kActBlock];
  store_u16(h, bf16_operand_bits(b.x[0]));
  store_u16(h + kLanes, bf16_operand_bits(b.x[1]));
  std::memcpy(to, h, (n + 1) / 2 * 2 * sizeof(uint16_t));
}

void prepare(const float* x, size_t ld, uint32_t begin, uint32_t end, uint32_t forms,
             Activations& out, uint8_t* not_finite) {
  const size_t bf16_stride = (size_t{out.k} + 1) / 2 * 2;
  int32_t limit;
  std::memcpy(&limit, &kActLimit, 4);
  for (uint32_t c = begin; c < end; ++c) {
    for (uint32_t k = 0; k < out.k; k += kActBlock) {
      ActBlock block = load_block(x + c * ld + k, out.k - k);
      int32_t amax = magnitude_bits(block);
      if (amax >= limit) {
        not_finite[c] = 1;
        block = {{F::splat(0.0f), F::splat(0.0f)}};
        amax = 0;
      }
      float largest;
      std::memcpy(&largest, &amax, 4);
      if (forms & kFormInt8) quantise_block(block, largest, out, k / kActBlock, c);
      if (forms & kFormBf16) store_bf16_block(block, out.k - k, out.bf16 + c * bf16_stride + k);
    }
  }
}
