// Q4_0, 18 bytes for 32: f16 d | 16 bytes of nibbles.   weight = d * (code - 8)
#include "quant/format.h"

namespace gyre::quant {
namespace {

void unpack(const uint8_t* block, Codes& out) {
  out.scale = load_f16(block);
  unpack_nibbles(block + 2, out.code);
}

}  // namespace

constinit const Format kQ4_0 = {{Family::scaled, 32, 32, 8, false, 15}, unpack, {0, -1}};

}  // namespace gyre::quant
