// Q4_K, 144 bytes for 256: f16 d | f16 dmin | 12 bytes of 6-bit scales and minima | 128 bytes of
// nibbles.   weight = d * sub_scale * code - dmin * sub_min, groups of 32
#include "quant/format.h"

namespace gyre::quant {
namespace {

void unpack(const uint8_t* block, Codes& out) {
  out.d = load_f16(block);
  out.dmin = load_f16(block + 2);
  unpack_scales_and_minima(block + 4, out.sub_scale, out.sub_min);
  unpack_nibble_rows(block + 16, 32, out.code);
}

}  // namespace

// Bytes 0-3: scales 0-3, bytes 4-7: minima 0-3, six low bits each; their top two bits are the high
// bits of scales and minima 4-7, whose low nibbles are bytes 8-11 (scale low, minimum high).
void unpack_scales_and_minima(const uint8_t* bytes, int16_t* sub_scale, int16_t* sub_min) {
  for (int g = 0; g < 4; ++g) {
    sub_scale[g] = bytes[g] & 63;
    sub_min[g] = bytes[g + 4] & 63;
    sub_scale[g + 4] = static_cast<int16_t>((bytes[g + 8] & 15) | ((bytes[g] >> 6) << 4));
    sub_min[g + 4] = static_cast<int16_t>((bytes[g + 8] >> 4) | ((bytes[g + 4] >> 6) << 4));
  }
}

constinit const Format kQ4K = {{Family::super, 256, 32, 0, true, 15}, unpack, {0, 2}};

}  // namespace gyre::quant
