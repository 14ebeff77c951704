// Q5_1, 24 bytes for 32: f16 d | f16 m | u32 fifth bits | 16 bytes of nibbles.
// weight = d * code + m
#include "quant/format.h"

namespace gyre::quant {
namespace {

void unpack(const uint8_t* block, Codes& out) {
  out.scale = load_f16(block);
  out.min = load_f16(block + 2);
  unpack_nibbles(block + 8, out.code);
  add_fifth_bits(load_u32(block + 4), out.code);
}

}  // namespace

constinit const Format kQ5_1 = {{Family::scaled, 32, 32, 0, true, 31}, unpack, {0, 2}};

}  // namespace gyre::quant
