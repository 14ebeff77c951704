// Q6_K, 210 bytes for 256: 128 bytes of nibbles | 64 bytes of bit pairs | 16 signed scales | f16 d.
// weight = d * sub_scale * (code - 32), groups of 16
#include "quant/format.h"
#include "quant/quantise.h"

namespace gyre::quant {
namespace {

void unpack(const uint8_t* block, Codes& out) {
  unpack_nibble_rows(block, 64, out.code);
  uint8_t high[256];
  unpack_pairs(block + 128, high);
  for (int k = 0; k < 256; ++k) out.code[k] = static_cast<uint8_t>(out.code[k] | (high[k] << 4));
  for (int g = 0; g < 16; ++g) out.sub_scale[g] = static_cast<int8_t>(block[192 + g]);
  out.d = load_f16(block + 208);
}

void pack(const Codes& codes, uint8_t* block) {
  pack_nibble_rows(codes.code, 64, block);
  uint8_t high[256];
  for (int k = 0; k < 256; ++k) high[k] = codes.code[k] >> 4;
  pack_pairs(high, block + 128);
  for (int g = 0; g < 16; ++g) block[192 + g] = static_cast<uint8_t>(codes.sub_scale[g]);
  store_f16(codes.d, block + 208);
}

void quantise(const float* x, Codes& out) {
  search_super({-32, 31, 32}, 16, -128, 127, x, out);
}

}  // namespace

constinit const Format kQ6K = {
    {Family::super, 256, 16, 32, false, 63}, unpack, pack, quantise, {208, -1}};

}  // namespace gyre::quant
