// Q5_K, 176 bytes for 256: f16 d | f16 dmin | 12 bytes of 6-bit scales and minima | 32 bytes of
// fifth bits | 128 bytes of nibbles.   weight = d * sub_scale * code - dmin * sub_min, groups of 32
#include "quant/format.h"

namespace gyre::quant {
namespace {

void unpack(const uint8_t* block, Codes& out) {
  out.d = load_f16(block);
  out.dmin = load_f16(block + 2);
  unpack_scales_and_minima(block + 4, out.sub_scale, out.sub_min);
  unpack_nibble_rows(block + 48, 32, out.code);
  const uint8_t* fifth = block + 16;
  for (int k = 0; k < 256; ++k)  // bit j of byte l is worth 16 in code 32 j + l
    out.code[k] = static_cast<uint8_t>(out.code[k] | (((fifth[k % 32] >> (k / 32)) & 1) << 4));
}

}  // namespace

constinit const Format kQ5K = {{Family::super, 256, 32, 0, true, 31}, unpack, {0, 2}};

}  // namespace gyre::quant
