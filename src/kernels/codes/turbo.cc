#include "kernels/codes/turbo.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/codes/bit_stream.h"
#include "numerics/half.h"
#include "numerics/philox.h"

namespace gyre::kernels {
namespace {

constexpr uint32_t kMaxDim = 1024;
constexpr uint16_t kTooLarge = 0x7180;  // 2^100 as bf16

constexpr uint32_t kDims[] = {32, 64, 128, 256, 512};
constexpr size_t kHalves = 2 + 4 + 8 + 16 + 32 + 128;
constexpr uint16_t kCodebooks[std::size(kDims)][kHalves] = {
#include "kernels/codes/turbo_codebooks.inl"
};

// The contract's vector sum: 64 lanes, then a tree.
float lane_dot(std::span<const float> a, std::span<const float> b) {
  float lanes[64] = {};
  for (size_t i = 0; i < a.size(); ++i) lanes[i % 64] = std::fma(a[i], b[i], lanes[i % 64]);
  for (size_t width = 32; width > 0; width /= 2) {
    for (size_t i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  return lanes[0];
}

void hadamard(std::span<float> x, float scale) {
  for (size_t h = 1; h < x.size(); h *= 2) {
    for (size_t i = 0; i < x.size(); i += 2 * h) {
      for (size_t j = i; j < i + h; ++j) {
        const float a = x[j], b = x[j + h];
        x[j] = a + b;
        x[j + h] = a - b;
      }
    }
  }
  for (float& value : x) value *= scale;
}

void flip(std::span<float> x, const uint32_t* flips) {
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = std::bit_cast<float>(std::bit_cast<uint32_t>(x[i]) ^ flips[i]);
}

// Where pass p begins.
uint32_t pass_start(uint32_t pass, uint32_t dim, uint32_t block) {
  return pass == 1 ? dim - block : 0;
}

float power_of_two(int exponent) {  // -126 .. 127
  return std::bit_cast<float>(static_cast<uint32_t>(exponent + 127) << 23);
}

}  // namespace

Result<Rotation> Rotation::make(uint32_t dim, uint64_t seed) {
  GYRE_TRY(check_row({CodeKind::turbo, 8, 0}, dim, "rotation"));
  if (dim == 0)
    return fail(ErrorCode::unsupported, "rotation: head size of a turbo code", "0", "at least 32");
  Rotation made;
  made.dim_ = dim;
  made.block_ = std::bit_floor(dim);
  made.passes_ = made.block_ == dim ? 1 : 3;
  const int log = std::countr_zero(made.block_);
  made.scale_ = power_of_two(-(log / 2)) * (log % 2 != 0 ? 0x1.6a09e6p-1f : 1.0f);
  GYRE_ASSIGN(made.flips_, Array<uint32_t>::make(size_t{made.passes_} * made.block_, "rotation"));
  for (uint32_t pass = 0; pass < made.passes_; ++pass) {
    for (uint32_t i = 0; i < made.block_; ++i) {
      const uint32_t word =
          numerics::philox4x32({i / 32, pass, 0, 0},
                               {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)})[0];
      made.flips_[size_t{pass} * made.block_ + i] = (word >> (i % 32) & 1) << 31;
    }
  }
  return made;
}

void Rotation::forward(std::span<float> row) const {
  for (uint32_t pass = 0; pass < passes_; ++pass) {
    const auto part = row.subspan(pass_start(pass, dim_, block_), block_);
    flip(part, flips_.data() + size_t{pass} * block_);
    hadamard(part, scale_);
  }
}

void Rotation::backward(std::span<float> row) const {
  for (uint32_t pass = passes_; pass-- > 0;) {
    const auto part = row.subspan(pass_start(pass, dim_, block_), block_);
    hadamard(part, scale_);
    flip(part, flips_.data() + size_t{pass} * block_);
  }
}

std::span<const uint16_t> turbo_codebook(uint32_t dim, uint32_t bits) {
  size_t which = 0;
  while (which + 1 < std::size(kDims) && kDims[which + 1] <= dim) ++which;
  const size_t half = size_t{1} << (bits - 1);
  return std::span(kCodebooks[which]).subspan(bits == 8 ? 62 : half - 2, half);
}

float turbo_value(std::span<const uint16_t> codebook, uint32_t code) {
  const auto half = static_cast<uint32_t>(codebook.size());
  return code < half ? -bf16_to_f32(codebook[half - 1 - code]) : bf16_to_f32(codebook[code - half]);
}

bool turbo_encode_row(const Rotation& rotation, uint32_t bits, std::span<const float> x,
                      std::byte* out) {
  const size_t dim = x.size(), code_bytes = dim * bits / 8;
  std::memset(out, 0, code_bytes + 4);
  float w[kMaxDim], y[kMaxDim], value[kMaxDim];
  uint16_t largest = 0;
  for (size_t i = 0; i < dim; ++i) {
    const uint16_t operand = f32_to_bf16_operand(x[i]);
    largest = std::max<uint16_t>(largest, operand & 0x7fff);
    w[i] = bf16_to_f32(operand);
  }
  if (largest >= kTooLarge) return false;
  if (largest == 0) return true;
  const int exponent = (largest >> 7) - 127;  // -56 .. 99
  for (size_t i = 0; i < dim; ++i) y[i] = w[i] = w[i] * power_of_two(-exponent);
  const float squares = lane_dot({w, dim}, {w, dim});
  rotation.forward({y, dim});
  const float to_unit = std::sqrt(static_cast<float>(dim) / squares);
  const auto codebook = turbo_codebook(static_cast<uint32_t>(dim), bits);
  const size_t half = codebook.size();
  float border[128];
  for (size_t j = 0; j + 1 < half; ++j)
    border[j] = (bf16_to_f32(codebook[j]) + bf16_to_f32(codebook[j + 1])) * 0.5f;
  for (size_t i = 0; i < dim; ++i) {
    const float z = y[i] * to_unit;
    const auto m = static_cast<size_t>(std::lower_bound(border, border + half - 1, std::fabs(z)) -
                                       border);  // the borders below |z|
    const auto code = static_cast<uint32_t>(z < 0 ? half - 1 - m : half + m);
    value[i] = turbo_value(codebook, code);
    put_code(out, i, bits, code);
  }
  const float factor = lane_dot({y, dim}, {value, dim}) / lane_dot({value, dim}, {value, dim}) *
                       power_of_two(exponent);
  const auto raw = std::bit_cast<uint32_t>(factor);
  put_u16(out + code_bytes, static_cast<uint16_t>(raw & 0xffff));
  put_u16(out + code_bytes + 2, static_cast<uint16_t>(raw >> 16));
  return true;
}

void turbo_decode_rotated(uint32_t bits, const std::byte* row, std::span<float> out) {
  const auto codebook = turbo_codebook(static_cast<uint32_t>(out.size()), bits);
  const std::byte* at = row + out.size() * bits / 8;
  const float factor =
      std::bit_cast<float>(get_u16(at) | static_cast<uint32_t>(get_u16(at + 2)) << 16);
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = std::fma(factor, turbo_value(codebook, get_code(row, i, bits)), 0.0f);  // no -0
}

void turbo_decode_row(const Rotation& rotation, uint32_t bits, const std::byte* row,
                      std::span<float> out) {
  turbo_decode_rotated(bits, row, out);
  rotation.backward(out);
}

}  // namespace gyre::kernels
