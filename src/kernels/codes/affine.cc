#include "kernels/codes/affine.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/codes/bit_stream.h"
#include "numerics/half.h"

namespace gyre::kernels {
namespace {

constexpr uint16_t kTooLarge = 0x7180;  // 2^100 as bf16

// The nearest integer, ties to even, of any finite x. A group of equal values has an edge far
// beyond numerics::round_half_even's range.
float round_even(float x) {
  constexpr float kWhole = 0x1p23f;  // from here on every float is an integer
  const float magnitude = std::fabs(x);
  return magnitude < kWhole ? std::copysign((magnitude + kWhole) - kWhole, x) : x;
}

}  // namespace

AffineRange affine_range(float lo, float hi, uint32_t bits) {
  const float n = static_cast<float>((1u << bits) - 1);
  float scale = std::max((hi - lo) / n, 1e-7f);
  float edge = lo;
  if (!(std::fabs(lo) > std::fabs(hi))) {
    scale = -scale;
    edge = hi;
  }
  const float q0 = round_even(edge / scale);
  if (q0 == 0.0f) return {scale, 0.0f};
  return {edge / q0, edge};
}

void affine_encode_group(std::span<const uint16_t> x, uint32_t bits, AffineGroup& out) {
  const float n = static_cast<float>((1u << bits) - 1);
  float lo = bf16_to_f32(x[0]), hi = 0.0f;
  for (const uint16_t value : x) {
    lo = std::min(lo, bf16_to_f32(value));
    hi = std::max(hi, bf16_to_f32(value));
  }
  const AffineRange range = affine_range(lo, hi, bits);
  for (size_t i = 0; i < x.size(); ++i) {
    // Never below 0: the edge is the end that the codes count from.
    const float code = round_even((bf16_to_f32(x[i]) - range.bias) / range.scale);
    out.code[i] = static_cast<uint8_t>(std::min(code, n));
  }
  out.scale = f32_to_bf16(range.scale);
  out.bias = f32_to_bf16(range.bias);
}

float affine_decode(uint32_t code, uint16_t scale, uint16_t bias) {
  return std::fma(bf16_to_f32(scale), static_cast<float>(code), bf16_to_f32(bias));
}

bool affine_encode_row(const RowCode& code, std::span<const float> x, std::byte* out) {
  bool finite = true;
  for (const float value : x) finite &= (f32_to_bf16_operand(value) & 0x7fff) < kTooLarge;
  const size_t groups = x.size() / code.group;
  std::byte* scales = out + x.size() * code.bits / 8;
  std::byte* biases = scales + 2 * groups;
  std::memset(out, 0, code.row_bytes(static_cast<uint32_t>(x.size())));
  for (size_t g = 0; g < groups; ++g) {
    uint16_t rounded[128];
    for (size_t i = 0; i < code.group; ++i)
      rounded[i] = finite ? f32_to_bf16_operand(x[g * code.group + i]) : uint16_t{0};
    AffineGroup group;
    affine_encode_group(std::span(rounded, code.group), code.bits, group);
    for (size_t i = 0; i < code.group; ++i)
      put_code(out, g * code.group + i, code.bits, group.code[i]);
    put_u16(scales + 2 * g, group.scale);
    put_u16(biases + 2 * g, group.bias);
  }
  return finite;
}

void affine_decode_row(const RowCode& code, const std::byte* row, std::span<float> out) {
  const std::byte* scales = row + out.size() * code.bits / 8;
  const std::byte* biases = scales + 2 * (out.size() / code.group);
  for (size_t i = 0; i < out.size(); ++i) {
    const size_t g = i / code.group;
    out[i] = affine_decode(get_code(row, i, code.bits), get_u16(scales + 2 * g),
                           get_u16(biases + 2 * g));
  }
}

}  // namespace gyre::kernels
