// Storing K and V as turbo or anchored codes, or rotated in bf16: equal to kernels/codes/turbo.h
// put in its page's place. Included at the end of attention_turbo.cc.

namespace {

// Of one instruction set's turns: what a row needs, made once a call.
struct Encoder {
  const Rotation rotation;
  const uint32_t dim;
  const RowCode code;
  alignas(64) float x[kMaxDim + kTile];      // the row, rotated
  alignas(64) float value[kMaxDim + kTile];  // of its codes
  alignas(64) uint16_t codes[kMaxDim + 2 * kTile];
  float factor[kMaxDim / kTurboGroup];

  Encoder(uint32_t d, const RowCode& c) : rotation(Rotation::stored(d)), dim(d), code(c) {}
};

GYRE_WORD float power_of_two(int32_t exponent) {
  float out;
  const int32_t b = (exponent + 127) << 23;
  std::memcpy(&out, &b, 4);
  return out;
}

// The contract's vector sum of fma(a, b, .).
float lane_dot(const float* a, const float* b, uint32_t n) {
  F lanes[4] = {F::splat(0.0f), F::splat(0.0f), F::splat(0.0f), F::splat(0.0f)};
  for (uint32_t i = 0; i < n; i += kTile) {
    const uint32_t left = least(kTile, n - i);
    F& lane = lanes[i / kTile % 4];
    lane = fma(load_first(a + i, left), load_first(b + i, left), lane);
  }
  return sum_lanes((lanes[0] + lanes[2]) + (lanes[1] + lanes[3]));
}

GYRE_WORD int32_t largest_magnitude(const float* x, uint32_t n) {
  I largest = I::splat(0);
  for (uint32_t i = 0; i < n; i += kTile)
    largest = max(largest, bits(magnitude(load_first(x + i, least(kTile, n - i)))));
  return max_lanes(largest);
}

GYRE_WORD void scale_values(float* x, uint32_t n, float factor) {
  for (uint32_t i = 0; i < n; i += kTile)
    store_first(x + i, load_first(x + i, least(kTile, n - i)) * F::splat(factor),
                least(kTile, n - i));
}

// Codes and values of y[0, n), whose squares sum to `squares`; returns the factor that loses least.
float encode_values(Encoder& row, uint32_t first, uint32_t n, float squares) {
  const float* y = row.x + first;
  const F to_unit = F::splat(__builtin_sqrtf(static_cast<float>(n) / squares));
  const auto codebook = turbo_codebook(n, row.code.bits);
  const auto half = static_cast<uint32_t>(codebook.size());
  const TurboTable& table = turbo_table(n, row.code.bits);
  float border[128];
  for (uint32_t j = 0; j + 1 < half; ++j)
    border[j] = (bf16_to_f32(codebook[j]) + bf16_to_f32(codebook[j + 1])) * 0.5f;
  for (uint32_t i = 0; i < n; i += kTile) {
    const F z = load_first(y + i, least(kTile, n - i)) * to_unit;
    const F size = magnitude(z);
    I below = I::splat(0);  // the borders below |z|
    for (uint32_t j = 0; j + 1 < half; ++j)
      below = select(less(F::splat(border[j]), size), I::splat(static_cast<int32_t>(j + 1)), below);
    const I up = I::splat(static_cast<int32_t>(half)) + below;
    const I down = I::splat(static_cast<int32_t>(half) - 1) - below;
    store_u16(row.codes + first + i, select(less(z, F::splat(0.0f)), down, up));
  }
  for (uint32_t i = 0; i < n; ++i)
    row.value[first + i] = bf16_to_f32(table.value[row.codes[first + i]]);
  const float* value = row.value + first;
  return lane_dot(y, value, n) / lane_dot(value, value, n);
}

// Loads a row's bf16 operands, or zeros.
GYRE_WORD void load_operands(Encoder& row, const float* x, bool good) {
  for (uint32_t d = 0; d < row.dim; d += kTile)
    store(row.x + d,
          good ? round_operand(load_first(x + d, least(kTile, row.dim - d))) : F::splat(0.0f));
}

void encode_whole(Encoder& row, const float* x, bool good) {
  load_operands(row, x, good);
  std::memset(row.codes, 0, sizeof row.codes);
  row.factor[0] = 0.0f;
  const int32_t largest = largest_magnitude(row.x, row.dim);
  if (largest == 0) return;
  const int32_t exponent = (largest >> 23) - 127;
  scale_values(row.x, row.dim, power_of_two(-exponent));
  const float squares = lane_dot(row.x, row.x, row.dim);
  rotate(row.rotation, row.x);
  row.factor[0] = encode_values(row, 0, row.dim, squares) * power_of_two(exponent);
}

void rotate_operands(Encoder& row, const float* x, bool good) {
  load_operands(row, x, good);
  rotate(row.rotation, row.x);
  for (uint32_t d = 0; d < row.dim; d += kTile) store(row.x + d, round_operand(load_f(row.x + d)));
}

void encode_groups(Encoder& row, const float* x, bool good, const std::byte* anchor) {
  rotate_operands(row, x, good);
  if (anchor != nullptr) {
    for (uint32_t d = 0; d < row.dim; d += kTile) {
      uint16_t mean[kTile] = {};
      std::memcpy(mean, anchor + size_t{2} * d, least(kTile, row.dim - d) * 2);
      store(row.x + d, load_f(row.x + d) - load_bf16(mean));
    }
  }
  std::memset(row.codes, 0, sizeof row.codes);
  for (uint32_t first = 0, g = 0; first < row.dim; first += kTurboGroup, ++g) {
    const uint32_t n = least(kTurboGroup, row.dim - first);
    row.factor[g] = 0.0f;
    const int32_t exponent = (largest_magnitude(row.x + first, n) >> 23) - 127;
    if (exponent < -100) continue;
    scale_values(row.x + first, n, power_of_two(-exponent));
    const float squares = lane_dot(row.x + first, row.x + first, n);
    row.factor[g] = encode_values(row, first, n, squares) * power_of_two(exponent);
  }
}

GYRE_WORD uint32_t word_at(const void* p) {
  uint32_t x;
  std::memcpy(&x, p, 4);
  return x;
}

// The last dim % 32 codes as a bit stream.
void put_tail(const Encoder& row, std::byte* to) {
  const uint32_t count = row.dim % 32, bits = row.code.bits;
  std::byte stream[24] = {};
  for (uint32_t i = 0; i < count; ++i) put_code(stream, i, bits, row.codes[row.dim - count + i]);
  std::memcpy(to, stream, size_t{count} * bits / 8);
}

// Factors, `apart` positions of them to a group.
void put_factors(const Encoder& row, std::byte* to, uint32_t apart, uint32_t at) {
  if (row.code.group == 0) {
    std::memcpy(to + at * 4, row.factor, 4);
    return;
  }
  for (uint32_t g = 0; g < row.code.groups(row.dim); ++g)
    put_u16(to + (g * apart + at) * 2, f32_to_bf16_operand(row.factor[g]));
}

void put_key_codes(const Encoder& row, std::byte* head, uint32_t position) {
  const uint32_t bits = row.code.bits, dim = row.dim, key = position % kTile;
  const Planes parts = planes(bits);
  std::byte* tile = head + position / kTile * kTile * row.code.row_bytes(dim);
  std::byte* to = tile;
  for (uint32_t b = 0; b < dim / 32; ++b) {
    uint32_t low = 0;
    for (uint32_t p = 0; p < parts.count; low += parts.width[p++]) {
      const uint32_t width = parts.width[p], mask = ((1u << width) - 1) * 0x00010001u;
      for (uint32_t l = 0; l < width; ++l, to += 64) {
        const uint16_t* codes = row.codes + b * 32 + l * (32 / width);
        uint32_t word = 0;
        for (uint32_t i = 0; i < 16 / width; ++i)
          word |= (word_at(codes + 2 * i) >> low & mask) << (i * width);
        std::memcpy(to + key * 4, &word, 4);
      }
    }
  }
  const size_t tail = dim % 32 * size_t{bits} / 8;
  if (tail != 0) put_tail(row, to + key * tail);
  put_factors(row, tile + kTile * (size_t{dim} * bits / 8), kTile, key);
}

void put_value_codes(const Encoder& row, std::byte* head, uint32_t position) {
  const uint32_t bits = row.code.bits, dim = row.dim, half = position % 2;
  const Planes parts = planes(bits);
  std::byte* to = head + position / 2 * (size_t{2} * dim * bits / 8);
  for (uint32_t b = 0; b < dim / 32; ++b) {
    uint32_t low = 0;
    for (uint32_t p = 0; p < parts.count; low += parts.width[p++]) {
      const uint32_t width = parts.width[p], mask = ((1u << width) - 1) * 0x00010001u;
      for (uint32_t lane = 0; lane < 2 * width; lane += 2, to += 8) {  // two lanes a word
        const uint16_t* codes = row.codes + b * 32 + lane;
        uint32_t word = 0;
        for (uint32_t i = 0; i < 16 / width; ++i)
          word |= (word_at(codes + i * 2 * width) >> low & mask) << (i * width);
        put_u16(to + half * 2, static_cast<uint16_t>(word & 0xffff));
        put_u16(to + 4 + half * 2, static_cast<uint16_t>(word >> 16));
      }
    }
  }
  const size_t tail = dim % 32 * size_t{bits} / 8;
  if (tail != 0) put_tail(row, to + half * tail);
  put_factors(row, head + size_t{kPagePositions} * dim * bits / 8, kPagePositions, position);
}

}  // namespace

bool store_turbo(const KvLayout& layout, std::byte* page, uint32_t position, const float* k,
                 const float* v, const std::byte* anchor) {
  const uint32_t k_dim = layout.k_dim, v_dim = layout.v_dim;
  const LayerCode& code = layout.code;
  const bool good =
      below_code_limit(k, layout.kv_heads * k_dim) && below_code_limit(v, layout.kv_heads * v_dim);
  Encoder key(k_dim, code.k), value(v_dim, code.v);
  for (uint32_t h = 0; h < layout.kv_heads; ++h, k += k_dim, v += v_dim) {
    std::byte* keys = page + h * layout.k_head_bytes();
    std::byte* values = page + layout.v_offset() + h * layout.v_head_bytes();
    if (code.rotated) {
      rotate_operands(key, k, good);
      put_keys(keys, position, key.x, k_dim, true);
      rotate_operands(value, v, good);
      put_values(values, position, value.x, v_dim, true);
      continue;
    }
    if (code.anchored) {
      encode_groups(key, k, good, anchor == nullptr ? nullptr : anchor + size_t{2} * h * k_dim);
      encode_groups(value, v, good, nullptr);
    } else {
      encode_whole(key, k, good);
      encode_whole(value, v, good);
    }
    put_key_codes(key, keys, position);
    put_value_codes(value, values, position);
  }
  return good;
}
