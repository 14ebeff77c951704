// The rotation of kernels/codes/turbo.h, 16 values at a time. Included in attention_turbo.cc,
// inside its unnamed namespace. Rows have room for 16 values after their last one.

constexpr uint32_t kMaxDim = 1024;

// Butterflies (a + b, a - b) at distance kDistance < 16, within a vector.
template <int kDistance>
GYRE_WORD F near_butterflies(F x) {
  const M upper = above(load_i(kLane) & I::splat(kDistance), I::splat(0));
  const F other = swap_lanes<kDistance>(x);
  return select(upper, other - x, x + other);
}

GYRE_WORD void hadamard(float* x, uint32_t n, float scale) {
  for (uint32_t i = 0; i < n; i += kTile) {
    F v = load_f(x + i);
    v = near_butterflies<1>(v);
    v = near_butterflies<2>(v);
    v = near_butterflies<4>(v);
    v = near_butterflies<8>(v);
    store(x + i, v);
  }
  for (uint32_t h = kTile; h < n; h *= 2) {
    for (uint32_t i = 0; i < n; i += 2 * h) {
      for (uint32_t j = i; j < i + h; j += kTile) {
        const F a = load_f(x + j), b = load_f(x + j + h);
        store(x + j, a + b);
        store(x + j + h, a - b);
      }
    }
  }
  for (uint32_t i = 0; i < n; i += kTile) store(x + i, load_f(x + i) * F::splat(scale));
}

GYRE_WORD void flip_signs(float* x, uint32_t n, const uint32_t* flips) {
  const I sign = I::splat(static_cast<int32_t>(0x80000000u));
  for (uint32_t i = 0; i < n; i += kTile) {
    // Bit i % 32 to the sign: left by 31 - i % 32.
    const I shift = I::splat(static_cast<int32_t>(31 - i % 32)) - load_i(kLane);
    const I flip = shift_left(I::splat(static_cast<int32_t>(flips[i / 32])), shift) & sign;
    store(x + i, from_bits(bits(load_f(x + i)) ^ flip));
  }
}

void rotate(const Rotation& rotation, float* row) {
  for (uint32_t pass = 0; pass < rotation.passes(); ++pass) {
    float* x = row + rotation.start(pass);
    flip_signs(x, rotation.block(), rotation.flips(pass));
    hadamard(x, rotation.block(), rotation.scale());
  }
}

void rotate_back(const Rotation& rotation, float* row) {
  for (uint32_t pass = rotation.passes(); pass-- > 0;) {
    float* x = row + rotation.start(pass);
    hadamard(x, rotation.block(), rotation.scale());
    flip_signs(x, rotation.block(), rotation.flips(pass));
  }
}
