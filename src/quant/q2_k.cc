// Q2_K, 84 bytes for 256: 16 bytes of (scale, minimum << 4) | 64 bytes of bit pairs | f16 d |
// f16 dmin.   weight = d * sub_scale * code - dmin * sub_min, groups of 16
#include "quant/format.h"

namespace gyre::quant {
namespace {

void unpack(const uint8_t* block, Codes& out) {
  for (int g = 0; g < 16; ++g) {
    out.sub_scale[g] = block[g] & 15;
    out.sub_min[g] = block[g] >> 4;
  }
  unpack_pairs(block + 16, out.code);
  out.d = load_f16(block + 80);
  out.dmin = load_f16(block + 82);
}

}  // namespace

constinit const Format kQ2K = {{Family::super, 256, 16, 0, true, 3}, unpack, {80, 82}};

}  // namespace gyre::quant
