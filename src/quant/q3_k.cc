// Q3_K, 110 bytes for 256: 32 bytes of third bits | 64 bytes of bit pairs | 12 bytes of 6-bit
// scales | f16 d.   weight = d * sub_scale * (code - 4), groups of 16, sub_scale = 6 bits - 32
#include "quant/format.h"

namespace gyre::quant {
namespace {

void unpack(const uint8_t* block, Codes& out) {
  unpack_pairs(block + 32, out.code);
  for (int k = 0; k < 256; ++k)  // bit j of byte l is worth 4 in code 32 j + l
    out.code[k] = static_cast<uint8_t>(out.code[k] | (((block[k % 32] >> (k / 32)) & 1) << 2));
  const uint8_t* scales = block + 96;
  for (int g = 0; g < 16; ++g) {
    const int low = g < 8 ? scales[g] & 15 : scales[g - 8] >> 4;
    const int high = (scales[8 + g % 4] >> (2 * (g / 4))) & 3;
    out.sub_scale[g] = static_cast<int16_t>((low | (high << 4)) - 32);
  }
  out.d = load_f16(block + 108);
}

}  // namespace

constinit const Format kQ3K = {{Family::super, 256, 16, 4, false, 7}, unpack, {108, -1}};

}  // namespace gyre::quant
