// Q8_0, 34 bytes for 32: f16 d | 32 signed bytes.   weight = d * (code - 128), code = byte + 128
#include "quant/format.h"
#include "quant/quantise.h"

namespace gyre::quant {
namespace {

void unpack(const uint8_t* block, Codes& out) {
  out.scale = load_f16(block);
  for (int k = 0; k < 32; ++k) out.code[k] = block[2 + k] ^ 0x80;
}

void pack(const Codes& codes, uint8_t* block) {
  store_f16(codes.scale, block);
  for (int k = 0; k < 32; ++k) block[2 + k] = codes.code[k] ^ 0x80;
}

// As the gguf package: halves round away from zero.
void quantise(const float* x, Codes& out) {
  float extreme = 0;
  for (int k = 0; k < 32; ++k) extreme = std::max(extreme, std::fabs(x[k]));
  out.scale = extreme / 127;
  const float inverse = out.scale == 0 ? 0 : 1 / out.scale;
  for (int k = 0; k < 32; ++k) {
    const float rounded = std::round(x[k] * inverse);
    const bool in_range = std::fabs(rounded) <= 127;  // not if the reciprocal overflowed
    out.code[k] = static_cast<uint8_t>((in_range ? static_cast<int>(rounded) : 0) + 128);
  }
}

}  // namespace

constinit const Format kQ8_0 = {
    {Family::scaled, 32, 32, 128, false, 255}, unpack, pack, quantise, {0, -1}};

}  // namespace gyre::quant
