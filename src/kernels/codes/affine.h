// The affine code of one row: integers of 2 to 8 bits in groups, each group with a scale and a
// bias. Scalar and plain: the definition that a kernel's encoder must equal bit for bit.
//
// A row is first rounded to bf16 operands. Per group of it, in f32, n = 2^bits - 1:
//   lo = min, hi = max(0, max)                       s = max((hi - lo) / n, 1e-7)
//   |lo| > |hi|: edge = lo; else s = -s, edge = hi   q0 = round_half_even(edge / s)
//   q0 != 0: s = edge / q0, bias = edge; else bias = 0
//   code = min(round_half_even((x - bias) / s), n)
// scale = bf16(s); the bias is bf16 already. Decoded: fma(scale, code, bias).
//
// Packed (docs/formats/kv.md): the codes as one little-endian bit stream, value i in bits
// [i * bits, (i + 1) * bits); then the scales; then the biases, little-endian bf16. No state;
// callers own all memory and have opened a FloatEnvironment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/codes/row_code.h"

namespace gyre::kernels {

// One group's codes (0 .. 2^bits - 1) and its bf16 scale and bias.
struct AffineGroup {
  uint8_t code[128];
  uint16_t scale = 0, bias = 0;
};

// From a group's lo and hi to its scale and bias, before the scale is rounded to bf16: value i has
// code min(round((x_i - bias) / scale), n).
struct AffineRange {
  float scale, bias;
};
AffineRange affine_range(float lo, float hi, uint32_t bits);

// Codes of up to 128 bf16 operands, all finite and below 2^100.
void affine_encode_group(std::span<const uint16_t> x, uint32_t bits, AffineGroup& out);
float affine_decode(uint32_t code, uint16_t scale, uint16_t bias);

// `code` is affine and check_row() accepts it for x.size(); `out` has code.row_bytes(x.size())
// bytes. A NaN, an infinity or a magnitude of 2^100 or more (after rounding): the row becomes the
// code of zeros, and the result is false.
bool affine_encode_row(const RowCode& code, std::span<const float> x, std::byte* out);
// Any bytes are a row; what they decode to may be NaN or infinite.
void affine_decode_row(const RowCode& code, const std::byte* row, std::span<float> out);

}  // namespace gyre::kernels
