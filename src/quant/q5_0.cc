// Q5_0, 22 bytes for 32: f16 d | u32 fifth bits | 16 bytes of nibbles.   weight = d * (code - 16)
#include "quant/format.h"
#include "quant/quantise.h"

namespace gyre::quant {
namespace {

void unpack(const uint8_t* block, Codes& out) {
  out.scale = load_f16(block);
  unpack_nibbles(block + 6, out.code);
  add_fifth_bits(load_u32(block + 2), out.code);
}

void pack(const Codes& codes, uint8_t* block) {
  store_f16(codes.scale, block);
  store_u32(fifth_bits(codes.code), block + 2);
  pack_nibbles(codes.code, block + 6);
}

void quantise(const float* x, Codes& out) {
  quantise_by_extreme(x, 16, out);
}

}  // namespace

constinit const Format kQ5_0 = {
    {Family::scaled, 32, 32, 16, false, 31}, unpack, pack, quantise, {0, -1}};

}  // namespace gyre::quant
