// Q4_K, 144 bytes for 256: f16 d | f16 dmin | 12 bytes of 6-bit scales and minima | 128 bytes of
// nibbles.   weight = d * sub_scale * code - dmin * sub_min, groups of 32
#include "quant/format.h"
#include "quant/quantise.h"

namespace gyre::quant {
namespace {

void unpack(const uint8_t* block, Codes& out) {
  out.d = load_f16(block);
  out.dmin = load_f16(block + 2);
  unpack_scales_and_minima(block + 4, out);
  unpack_nibble_rows(block + 16, 32, out.code);
}

void pack(const Codes& codes, uint8_t* block) {
  store_f16(codes.d, block);
  store_f16(codes.dmin, block + 2);
  pack_scales_and_minima(codes, block + 4);
  pack_nibble_rows(codes.code, 32, block + 16);
}

void quantise(const float* x, Codes& out) {
  search_super_with_min(32, 15, 63, x, out);
}

}  // namespace

// Bytes 0-3: scales 0-3, bytes 4-7: minima 0-3, six low bits each; their top two bits are the high
// bits of scales and minima 4-7, whose low nibbles are bytes 8-11 (scale low, minimum high).
void unpack_scales_and_minima(const uint8_t* bytes, Codes& out) {
  for (int g = 0; g < 4; ++g) {
    const uint8_t scale = bytes[g], min = bytes[g + 4], low = bytes[g + 8];
    out.sub_scale[g] = scale & 63;
    out.sub_min[g] = min & 63;
    out.sub_scale[g + 4] = static_cast<int16_t>((low & 15) | ((scale >> 6) << 4));
    out.sub_min[g + 4] = static_cast<int16_t>((low >> 4) | ((min >> 6) << 4));
  }
}

void pack_scales_and_minima(const Codes& codes, uint8_t* bytes) {
  for (int g = 0; g < 4; ++g) {
    const int scale = codes.sub_scale[g + 4], min = codes.sub_min[g + 4];
    bytes[g] = static_cast<uint8_t>(codes.sub_scale[g] | ((scale >> 4) << 6));
    bytes[g + 4] = static_cast<uint8_t>(codes.sub_min[g] | ((min >> 4) << 6));
    bytes[g + 8] = static_cast<uint8_t>((scale & 15) | ((min & 15) << 4));
  }
}

constinit const Format kQ4K = {
    {Family::super, 256, 32, 0, true, 15}, unpack, pack, quantise, {0, 2}};

}  // namespace gyre::quant
