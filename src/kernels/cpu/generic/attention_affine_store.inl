// Storing K and V as affine codes: equal to kernels/codes/affine.h put in its page's place.
// Included at the end of attention_affine.cc.

namespace {

// The bf16 operands of a group, up to 8 vectors, and their codes.
struct Group {
  F x[8];
  uint32_t vectors;
};

GYRE_WORD void encode_group(const Group& group, uint32_t bits, uint8_t* codes, uint16_t* scale,
                            uint16_t* bias) {
  F lo = group.x[0], hi = F::splat(0.0f);
  for (uint32_t i = 0; i < group.vectors; ++i) {
    lo = min(lo, group.x[i]);
    hi = max(hi, group.x[i]);
  }
  const AffineRange range = affine_range(-largest_lane(-lo), largest_lane(hi), bits);
  const F s = F::splat(range.scale), b = F::splat(range.bias);
  const I n = I::splat((1 << bits) - 1);
  for (uint32_t i = 0; i < group.vectors; ++i)
    store_i8(codes + i * kTile, min(round_to_int((group.x[i] - b) / s), n));
  *scale = f32_to_bf16(range.scale);
  *bias = f32_to_bf16(range.bias);
}

struct EncodedRow {
  alignas(64) uint8_t codes[1024];
  uint16_t scale[32], bias[32];
};

void encode_row(const RowCode& code, const float* x, uint32_t dim, bool good, EncodedRow& out) {
  for (uint32_t g = 0; g < dim / code.group; ++g) {
    Group group;
    group.vectors = code.group / kTile;
    for (uint32_t i = 0; i < group.vectors; ++i)
      group.x[i] = good ? round_operand(load_f(x + g * code.group + i * kTile)) : F::splat(0.0f);
    encode_group(group, code.bits, out.codes + g * code.group, out.scale + g, out.bias + g);
  }
}

GYRE_WORD uint32_t word_at(const void* p) {
  uint32_t x;
  std::memcpy(&x, p, 4);
  return x;
}

// 4 bytes of a plane: the bits [low, low + width) of codes `apart` bytes apart.
GYRE_WORD uint32_t plane_word(const uint8_t* codes, uint32_t apart, uint32_t width, uint32_t low) {
  const uint32_t mask = ((1u << width) - 1) * 0x01010101u;
  uint32_t out = 0;
  for (uint32_t p = 0; p < 8 / width; ++p)
    out |= (word_at(codes + p * apart) >> low & mask) << (p * width);
  return out;
}

void put_key_row(const RowCode& code, const EncodedRow& row, uint32_t dim, std::byte* head,
                 uint32_t position) {
  const Planes parts = planes(code.bits);
  std::byte* to = head + position / kTile * kTile * code.row_bytes(dim) + position % kTile * 4;
  for (uint32_t b = 0; b < dim / 32; ++b) {
    uint32_t low = 0;
    for (uint32_t p = 0; p < parts.count; low += parts.width[p++]) {
      const uint32_t width = parts.width[p];
      for (uint32_t l = 0; l < width; ++l, to += kLine) {
        const uint32_t word = plane_word(row.codes + b * 32 + l * (32 / width), 4, width, low);
        std::memcpy(to, &word, 4);
      }
    }
  }
  for (uint32_t g = 0; g < dim / code.group; ++g, to += kLine) {
    std::memcpy(to, row.scale + g, 2);
    std::memcpy(to + 2, row.bias + g, 2);
  }
}

void put_value_row(const RowCode& code, const EncodedRow& row, uint32_t dim, std::byte* head,
                   uint32_t position) {
  const Planes parts = planes(code.bits);
  std::byte* to = head + position / 4 * (size_t{4} * dim * code.bits / 8) + position % 4;
  for (uint32_t b = 0; b < dim / 32; ++b) {
    uint32_t low = 0;
    for (uint32_t p = 0; p < parts.count; low += parts.width[p++]) {
      const uint32_t width = parts.width[p];
      for (uint32_t i = 0; i < 4 * width; i += 4, to += 16) {
        const uint32_t word = plane_word(row.codes + b * 32 + i, 4 * width, width, low);
        for (uint32_t k = 0; k < 4; ++k) to[k * 4] = static_cast<std::byte>(word >> (8 * k) & 0xff);
      }
    }
  }
  std::byte* params = head + size_t{kPagePositions} * dim * code.bits / 8 + position * 4;
  for (uint32_t g = 0; g < dim / code.group; ++g, params += kPagePositions * 4) {
    std::memcpy(params, row.scale + g, 2);
    std::memcpy(params + 2, row.bias + g, 2);
  }
}

}  // namespace

bool store_affine(const KvLayout& layout, std::byte* page, uint32_t position, const float* k,
                  const float* v) {
  const uint32_t k_dim = layout.k_dim, v_dim = layout.v_dim;
  const bool good =
      below_code_limit(k, layout.kv_heads * k_dim) && below_code_limit(v, layout.kv_heads * v_dim);
  EncodedRow row;
  for (uint32_t h = 0; h < layout.kv_heads; ++h) {
    encode_row(layout.code.k, k + size_t{h} * k_dim, k_dim, good, row);
    put_key_row(layout.code.k, row, k_dim, page + h * layout.k_head_bytes(), position);
    encode_row(layout.code.v, v + size_t{h} * v_dim, v_dim, good, row);
    put_value_row(layout.code.v, row, v_dim, page + layout.v_offset() + h * layout.v_head_bytes(),
                  position);
  }
  return good;
}
