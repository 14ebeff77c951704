// MXFP4, 17 bytes for 32: u8 e | 16 bytes of nibbles, each an e2m1 float.
// The e2m1 values doubled are integers: weight = 2^(e - 128) * (code - 12).
// e = 255 means NaN, and from 253 on the large values leave f32's range: the audit refuses both.
#include "quant/format.h"
#include "quant/quantise.h"

namespace gyre::quant {
namespace {

// 0, 1, 2, 3, 4, 6, 8, 12, then their negatives, plus the zero point 12. -0 is 0.
constexpr uint8_t kE2m1Codes[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

// 2^(e - 128); the first two are subnormal.
float scale_of(uint8_t e) {
  const uint32_t bits = e < 2 ? 0x00200000u << e : static_cast<uint32_t>(e - 1) << 23;
  return std::bit_cast<float>(bits);
}

void unpack(const uint8_t* block, Codes& out) {
  out.scale = scale_of(block[0]);
  unpack_codebook(block + 1, kE2m1Codes, out.code);
}

void pack(const Codes& codes, uint8_t* block) {
  block[0] = static_cast<uint8_t>(std::ilogb(codes.scale) + 128);
  pack_codebook(codes.code, kE2m1Codes, block + 1);
}

// As the gguf package: the largest value's power of two, then the nearest value of lowest index.
void quantise(const float* x, Codes& out) {
  float extreme = 0;
  for (int k = 0; k < 32; ++k) extreme = std::max(extreme, std::fabs(x[k]));
  const int e = extreme > 0 ? std::clamp(std::ilogb(extreme) - 2 + 127, 0, 252) : 0;
  out.scale = scale_of(static_cast<uint8_t>(e));
  for (int k = 0; k < 32; ++k) {
    float best_error = INFINITY;
    for (uint8_t code : kE2m1Codes) {
      const float error = std::fabs(out.scale * static_cast<float>(code - 12) - x[k]);
      if (error >= best_error) continue;
      best_error = error;
      out.code[k] = code;
    }
  }
}

}  // namespace

constinit const Format kMxfp4 = {
    {Family::scaled, 32, 32, 12, false, 24}, unpack, pack, quantise, {-1, -1}, true};

}  // namespace gyre::quant
