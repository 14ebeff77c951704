// Q5_K, 176 bytes for 256: f16 d | f16 dmin | 12 bytes of 6-bit scales and minima | 32 bytes of
// fifth bits | 128 bytes of nibbles.   weight = d * sub_scale * code - dmin * sub_min, groups of 32
#include "quant/format.h"
#include "quant/quantise.h"

namespace gyre::quant {
namespace {

void unpack(const uint8_t* block, Codes& out) {
  out.d = load_f16(block);
  out.dmin = load_f16(block + 2);
  unpack_scales_and_minima(block + 4, out);
  unpack_nibble_rows(block + 48, 32, out.code);
  add_high_bits(block + 16, 4, out.code);
}

void pack(const Codes& codes, uint8_t* block) {
  store_f16(codes.d, block);
  store_f16(codes.dmin, block + 2);
  pack_scales_and_minima(codes, block + 4);
  pack_high_bits(codes.code, 4, block + 16);
  pack_nibble_rows(codes.code, 32, block + 48);
}

void quantise(const float* x, Codes& out) {
  search_super_with_min(32, 31, 63, x, out);
}

}  // namespace

constinit const Format kQ5K = {
    {Family::super, 256, 32, 0, true, 31}, unpack, pack, quantise, {0, 2}};

}  // namespace gyre::quant
