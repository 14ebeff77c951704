// Q2_K, 84 bytes for 256: 16 bytes of (scale, minimum << 4) | 64 bytes of bit pairs | f16 d |
// f16 dmin.   weight = d * sub_scale * code - dmin * sub_min, groups of 16
#include "quant/format.h"
#include "quant/quantise.h"

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

void pack(const Codes& codes, uint8_t* block) {
  for (int g = 0; g < 16; ++g)
    block[g] = static_cast<uint8_t>(codes.sub_scale[g] | (codes.sub_min[g] << 4));
  pack_pairs(codes.code, block + 16);
  store_f16(codes.d, block + 80);
  store_f16(codes.dmin, block + 82);
}

void quantise(const float* x, Codes& out) {
  search_super_with_min(16, 3, 15, x, out);
}

}  // namespace

constinit const Format kQ2K = {
    {Family::super, 256, 16, 0, true, 3}, unpack, pack, quantise, {80, 82}};

}  // namespace gyre::quant
