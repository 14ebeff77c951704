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
    x[i] =
        std::bit_cast<float>(std::bit_cast<uint32_t>(x[i]) ^ (flips[i / 32] >> (i % 32) & 1) << 31);
}

float power_of_two(int exponent) {  // -126 .. 127
  return std::bit_cast<float>(static_cast<uint32_t>(exponent + 127) << 23);
}

}  // namespace

constexpr Rotation::Flips Rotation::make_flips(uint64_t seed) {
  Flips out{};
  for (uint32_t i = 0; i < out.size(); ++i)
    out[i] =
        numerics::philox4x32({i % kFlipWords, i / kFlipWords, 0, 0},
                             {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)})[0];
  return out;
}

Rotation::Rotation(uint32_t dim, const Flips& flips)
    : dim_(dim), block_(std::bit_floor(dim)), passes_(block_ == dim ? 1 : 3), flips_(flips) {
  const int log = std::countr_zero(block_);
  scale_ = power_of_two(-(log / 2)) * (log % 2 != 0 ? 0x1.6a09e6p-1f : 1.0f);
}

Rotation Rotation::stored(uint32_t dim) {
  static constexpr Flips kFlips = make_flips(kTurboSeed);
  return {dim, kFlips};
}

Result<Rotation> Rotation::make(uint32_t dim, uint64_t seed) {
  GYRE_TRY(check_row({CodeKind::turbo, 8, 0}, dim, "rotation"));
  if (dim == 0)
    return fail(ErrorCode::unsupported, "rotation: head size of a turbo code", "0", "at least 32");
  return Rotation(dim, make_flips(seed));
}

void Rotation::forward(std::span<float> row) const {
  for (uint32_t pass = 0; pass < passes_; ++pass) {
    const auto part = row.subspan(start(pass), block_);
    flip(part, flips(pass));
    hadamard(part, scale_);
  }
}

void Rotation::backward(std::span<float> row) const {
  for (uint32_t pass = passes_; pass-- > 0;) {
    const auto part = row.subspan(start(pass), block_);
    hadamard(part, scale_);
    flip(part, flips(pass));
  }
}

namespace {

size_t codebook_of(uint32_t dim) {
  size_t which = 0;
  while (which + 1 < std::size(kDims) && kDims[which + 1] <= dim) ++which;
  return which;
}

struct AllTables {
  TurboTable table[std::size(kDims)][9] = {};
  AllTables() {
    for (size_t which = 0; which < std::size(kDims); ++which) {
      for (uint32_t bits : {2, 3, 4, 5, 6, 8}) {
        TurboTable& t = table[which][bits];
        const auto codebook = turbo_codebook(kDims[which], bits);
        for (uint32_t c = 0; c < 1u << bits; ++c) {
          t.value[c] = f32_to_bf16(turbo_value(codebook, c));
          if (c >= 16) continue;
          t.low[c] = static_cast<uint8_t>(t.value[c] & 0xff);
          t.high[c] = static_cast<uint8_t>(t.value[c] >> 8);
        }
      }
    }
  }
};

}  // namespace

const TurboTable& turbo_table(uint32_t dim, uint32_t bits) {
  static const AllTables tables;
  return tables.table[codebook_of(dim)][bits];
}

std::span<const uint16_t> turbo_codebook(uint32_t dim, uint32_t bits) {
  const size_t which = codebook_of(dim);
  const size_t half = size_t{1} << (bits - 1);
  return std::span(kCodebooks[which]).subspan(bits == 8 ? 62 : half - 2, half);
}

float turbo_value(std::span<const uint16_t> codebook, uint32_t code) {
  const auto half = static_cast<uint32_t>(codebook.size());
  return code < half ? -bf16_to_f32(codebook[half - 1 - code]) : bf16_to_f32(codebook[code - half]);
}

namespace {

// The codes of y, whose squares sum to `squares`, as values [first, first + y.size()) of a stream;
// returns the factor that loses least.
float encode_values(std::span<const float> y, float squares, uint32_t bits, size_t first,
                    std::byte* stream) {
  float value[kMaxDim];
  const float to_unit = std::sqrt(static_cast<float>(y.size()) / squares);
  const auto codebook = turbo_codebook(static_cast<uint32_t>(y.size()), bits);
  const size_t half = codebook.size();
  float border[128];
  for (size_t j = 0; j + 1 < half; ++j)
    border[j] = (bf16_to_f32(codebook[j]) + bf16_to_f32(codebook[j + 1])) * 0.5f;
  for (size_t i = 0; i < y.size(); ++i) {
    const float z = y[i] * to_unit;
    const auto m = static_cast<size_t>(std::lower_bound(border, border + half - 1, std::fabs(z)) -
                                       border);  // the borders below |z|
    const auto code = static_cast<uint32_t>(z < 0 ? half - 1 - m : half + m);
    value[i] = turbo_value(codebook, code);
    put_code(stream, first + i, bits, code);
  }
  return lane_dot(y, {value, y.size()}) / lane_dot({value, y.size()}, {value, y.size()});
}

}  // namespace

bool turbo_encode_row(const Rotation& rotation, uint32_t bits, std::span<const float> x,
                      std::byte* out) {
  const size_t dim = x.size(), code_bytes = dim * bits / 8;
  std::memset(out, 0, code_bytes + 4);
  float w[kMaxDim], y[kMaxDim];
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
  const float factor = encode_values({y, dim}, squares, bits, 0, out) * power_of_two(exponent);
  const auto raw = std::bit_cast<uint32_t>(factor);
  put_u16(out + code_bytes, static_cast<uint16_t>(raw & 0xffff));
  put_u16(out + code_bytes + 2, static_cast<uint16_t>(raw >> 16));
  return true;
}

void turbo_encode_groups(uint32_t bits, std::span<const float> x, std::byte* out) {
  const RowCode code{CodeKind::turbo, bits, kTurboGroup};
  std::byte* factor = out + x.size() * bits / 8;
  std::memset(out, 0, code.row_bytes(static_cast<uint32_t>(x.size())));
  for (size_t first = 0; first < x.size(); first += kTurboGroup, factor += 2) {
    const auto group = x.subspan(first, std::min<size_t>(kTurboGroup, x.size() - first));
    uint32_t largest = 0;
    for (const float value : group)
      largest = std::max(largest, std::bit_cast<uint32_t>(value) & 0x7fffffff);
    const int exponent = static_cast<int>(largest >> 23) - 127;
    if (exponent < -100) continue;
    float y[kTurboGroup];
    for (size_t i = 0; i < group.size(); ++i) y[i] = group[i] * power_of_two(-exponent);
    const std::span<const float> scaled(y, group.size());
    const float best = encode_values(scaled, lane_dot(scaled, scaled), bits, first, out);
    put_u16(factor, f32_to_bf16_operand(best * power_of_two(exponent)));
  }
}

void turbo_decode_groups(uint32_t bits, const std::byte* row, std::span<float> out) {
  const std::byte* factors = row + out.size() * bits / 8;
  for (size_t i = 0; i < out.size(); ++i) {
    const size_t first = i / kTurboGroup * kTurboGroup;
    const auto codebook = turbo_codebook(
        static_cast<uint32_t>(std::min<size_t>(kTurboGroup, out.size() - first)), bits);
    const float factor = bf16_to_f32(get_u16(factors + 2 * (i / kTurboGroup)));
    out[i] = std::fma(factor, turbo_value(codebook, get_code(row, i, bits)), 0.0f);  // no -0
  }
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
