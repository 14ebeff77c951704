// Q8_0, 34 bytes for 32: f16 d | 32 signed bytes.   weight = d * (code - 128), code = byte + 128
#include "quant/format.h"

namespace gyre::quant {
namespace {

void unpack(const uint8_t* block, Codes& out) {
  out.scale = load_f16(block);
  for (int k = 0; k < 32; ++k) out.code[k] = block[2 + k] ^ 0x80;
}

}  // namespace

constinit const Format kQ8_0 = {{Family::scaled, 32, 32, 128, false, 255}, unpack, {0, -1}};

}  // namespace gyre::quant
