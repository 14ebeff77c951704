// Q4_0, 18 bytes for 32: f16 d | 16 bytes of nibbles.   weight = d * (code - 8)
#include "quant/format.h"
#include "quant/quantise.h"

namespace gyre::quant {
namespace {

void unpack(const uint8_t* block, Codes& out) {
  out.scale = load_f16(block);
  unpack_nibbles(block + 2, out.code);
}

void pack(const Codes& codes, uint8_t* block) {
  store_f16(codes.scale, block);
  pack_nibbles(codes.code, block + 2);
}

void quantise(const float* x, Codes& out) {
  quantise_by_extreme(x, 8, out);
}

}  // namespace

constinit const Format kQ4_0 = {
    {Family::scaled, 32, 32, 8, false, 15}, unpack, pack, quantise, {0, -1}};

}  // namespace gyre::quant
