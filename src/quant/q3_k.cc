// Q3_K, 110 bytes for 256: 32 bytes of third bits | 64 bytes of bit pairs | 12 bytes of 6-bit
// scales | f16 d.   weight = d * sub_scale * (code - 4), groups of 16, sub_scale = 6 bits - 32
#include "quant/format.h"
#include "quant/quantise.h"

namespace gyre::quant {
namespace {

void unpack(const uint8_t* block, Codes& out) {
  unpack_pairs(block + 32, out.code);
  add_high_bits(block, 2, out.code);
  const uint8_t* scales = block + 96;
  for (int g = 0; g < 16; ++g) {
    const int low = g < 8 ? scales[g] & 15 : scales[g - 8] >> 4;
    const int high = (scales[8 + g % 4] >> (2 * (g / 4))) & 3;
    out.sub_scale[g] = static_cast<int16_t>((low | (high << 4)) - 32);
  }
  out.d = load_f16(block + 108);
}

void pack(const Codes& codes, uint8_t* block) {
  pack_high_bits(codes.code, 2, block);
  pack_pairs(codes.code, block + 32);
  uint8_t* scales = block + 96;
  std::memset(scales, 0, 12);
  for (int g = 0; g < 16; ++g) {
    const int scale = codes.sub_scale[g] + 32;
    scales[g % 8] = static_cast<uint8_t>(scales[g % 8] | ((scale & 15) << (g < 8 ? 0 : 4)));
    scales[8 + g % 4] = static_cast<uint8_t>(scales[8 + g % 4] | ((scale >> 4) << (2 * (g / 4))));
  }
  store_f16(codes.d, block + 108);
}

void quantise(const float* x, Codes& out) {
  search_super({-4, 3, 4}, 16, -32, 31, x, out);
}

}  // namespace

constinit const Format kQ3K = {
    {Family::super, 256, 16, 4, false, 7}, unpack, pack, quantise, {108, -1}};

}  // namespace gyre::quant
