// Q5_1, 24 bytes for 32: f16 d | f16 m | u32 fifth bits | 16 bytes of nibbles.
// weight = d * code + m
#include "quant/format.h"
#include "quant/quantise.h"

namespace gyre::quant {
namespace {

void unpack(const uint8_t* block, Codes& out) {
  out.scale = load_f16(block);
  out.min = load_f16(block + 2);
  unpack_nibbles(block + 8, out.code);
  add_fifth_bits(load_u32(block + 4), out.code);
}

void pack(const Codes& codes, uint8_t* block) {
  store_f16(codes.scale, block);
  store_f16(codes.min, block + 2);
  store_u32(fifth_bits(codes.code), block + 4);
  pack_nibbles(codes.code, block + 8);
}

void quantise(const float* x, Codes& out) {
  quantise_by_range(x, 31, out);
}

}  // namespace

constinit const Format kQ5_1 = {
    {Family::scaled, 32, 32, 0, true, 31}, unpack, pack, quantise, {0, 2}};

}  // namespace gyre::quant
