// Q5_0, 22 bytes for 32: f16 d | u32 fifth bits | 16 bytes of nibbles.   weight = d * (code - 16)
#include "quant/format.h"

namespace gyre::quant {
namespace {

void unpack(const uint8_t* block, Codes& out) {
  out.scale = load_f16(block);
  unpack_nibbles(block + 6, out.code);
  add_fifth_bits(load_u32(block + 2), out.code);
}

}  // namespace

constinit const Format kQ5_0 = {{Family::scaled, 32, 32, 16, false, 31}, unpack, {0, -1}};

}  // namespace gyre::quant
