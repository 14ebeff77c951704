// IQ4_XS, 136 bytes for 256: f16 d | u16 high scale bits | 4 bytes of low scale nibbles | 128 bytes
// of nibbles, each an index into IQ4_NL's codebook.
// weight = d * sub_scale * (code - 128), groups of 32, sub_scale = 6 bits - 32
#include "quant/format.h"
#include "quant/quantise.h"

namespace gyre::quant {
namespace {

void unpack(const uint8_t* block, Codes& out) {
  out.d = load_f16(block);
  const uint16_t high = load_u16(block + 2);
  for (int g = 0; g < 8; ++g) {
    const int low = (block[4 + g / 2] >> (4 * (g % 2))) & 15;
    out.sub_scale[g] = static_cast<int16_t>((low | (((high >> (2 * g)) & 3) << 4)) - 32);
    unpack_codebook(block + 8 + 16 * g, kIq4Codes, out.code + 32 * g);
  }
}

void pack(const Codes& codes, uint8_t* block) {
  store_f16(codes.d, block);
  uint32_t high = 0;
  std::memset(block + 4, 0, 4);
  for (int g = 0; g < 8; ++g) {
    const int scale = codes.sub_scale[g] + 32;
    block[4 + g / 2] = static_cast<uint8_t>(block[4 + g / 2] | ((scale & 15) << (4 * (g % 2))));
    high |= static_cast<uint32_t>(scale >> 4) << (2 * g);
    pack_codebook(codes.code + 32 * g, kIq4Codes, block + 8 + 16 * g);
  }
  store_u16(static_cast<uint16_t>(high), block + 2);
}

void quantise(const float* x, Codes& out) {
  search_super(kIq4Levels, 32, -32, 31, x, out);
}

}  // namespace

constinit const Format kIq4Xs = {
    {Family::super, 256, 32, 128, false, 241}, unpack, pack, quantise, {0, -1}};

}  // namespace gyre::quant
