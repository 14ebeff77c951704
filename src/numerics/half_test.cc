// Rounding is a monotonic step function, so it is right everywhere if it is right at every
// representable value, at every midpoint, and at the floats on both sides of each midpoint.
// The expected values come from double arithmetic (ldexp), not from bit tricks.
#include "numerics/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace gyre {
namespace {

struct Format {
  int exponent_bits, fraction_bits;
  uint16_t inf() const {
    return static_cast<uint16_t>(((1 << exponent_bits) - 1) << fraction_bits);
  }
  // The value of a magnitude; the pattern of Inf counts as the next power of two.
  double value(uint16_t bits) const {
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const int exponent = bits >> fraction_bits;
    const int fraction = bits & ((1 << fraction_bits) - 1);
    if (exponent == 0) return std::ldexp(fraction, 1 - bias - fraction_bits);
    return std::ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
  }
};
constexpr Format kF16{5, 10}, kBf16{8, 7};
constexpr float kInf = std::numeric_limits<float>::infinity();

void check_decode(Format format, float (*decode)(uint16_t)) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const uint16_t magnitude = bits & 0x7fff;
    const float got = decode(static_cast<uint16_t>(bits));
    ASSERT_EQ(std::signbit(got), bits >= 0x8000) << bits;
    if (magnitude > format.inf()) {
      ASSERT_TRUE(std::isnan(got)) << bits;
    } else if (magnitude == format.inf()) {
      ASSERT_TRUE(std::isinf(got)) << bits;
    } else {
      ASSERT_EQ(std::fabs(static_cast<double>(got)), format.value(magnitude)) << bits;
    }
  }
}

void check_encode(Format format, uint16_t (*encode)(float)) {
  auto expect = [&](float x, uint16_t bits) {
    ASSERT_EQ(encode(x), bits) << x;
    ASSERT_EQ(encode(-x), bits | 0x8000) << -x;
  };
  for (uint16_t bits = 0; bits < format.inf(); ++bits) {
    const uint16_t next = bits + 1;  // the largest finite value's neighbour is Inf
    const double low = format.value(bits), high = format.value(next);
    expect(static_cast<float>(low), bits);
    const double exact = (low + high) / 2;
    const float mid = static_cast<float>(exact);
    ASSERT_EQ(static_cast<double>(mid), exact);
    expect(mid, bits % 2 == 0 ? bits : next);
    expect(std::nextafter(mid, 0.0f), bits);
    expect(std::nextafter(mid, kInf), next);
  }
  expect(kInf, format.inf());
  expect(std::numeric_limits<float>::max(), format.inf());
}

TEST(Half, DecodesEveryPattern) {
  check_decode(kF16, f16_to_f32);
  check_decode(kBf16, bf16_to_f32);
}

TEST(Half, RoundsToNearestEvenAtEveryStep) {
  check_encode(kF16, f32_to_f16);
  check_encode(kBf16, f32_to_bf16);
}

TEST(Half, NanStaysNan) {
  for (uint32_t payload : {1u, 0x40u, 0x1fffu, 0x2000u, 0xffffu, 0x10000u, 0x400000u, 0x7fffffu}) {
    for (uint32_t sign : {0u, 0x80000000u}) {
      const float x = std::bit_cast<float>(sign | 0x7f800000 | payload);
      for (uint16_t h : {f32_to_bf16(x), f32_to_bf16_operand(x)}) {
        EXPECT_TRUE(std::isnan(bf16_to_f32(h))) << std::hex << payload;
        EXPECT_EQ(h >> 15, sign >> 31);
      }
      EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(x)))) << std::hex << payload;
      EXPECT_EQ(f32_to_f16(x) >> 15, sign >> 31);
    }
  }
}

TEST(Half, RoundTripsEveryFinitePattern) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const uint16_t h = static_cast<uint16_t>(bits);
    if ((h & 0x7fff) <= kF16.inf()) {
      ASSERT_EQ(f32_to_f16(f16_to_f32(h)), h);
    }
    if ((h & 0x7fff) <= kBf16.inf()) {
      ASSERT_EQ(f32_to_bf16(bf16_to_f32(h)), h);
    }
  }
}

TEST(Half, OperandsBelowTwoToTheMinus56ArePlusZero) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float x = bf16_to_f32(static_cast<uint16_t>(bits));
    const uint16_t expected = std::fabs(x) < std::ldexp(1.0f, -56) ? 0 : f32_to_bf16(x);
    ASSERT_EQ(f32_to_bf16_operand(x), expected) << bits;
  }
  // Rounding comes first: this is below 2^-56, but its bf16 is not.
  const float below = std::nextafter(std::ldexp(1.0f, -56), 0.0f);
  EXPECT_EQ(bf16_to_f32(f32_to_bf16_operand(below)), std::ldexp(1.0f, -56));
  EXPECT_EQ(bf16_to_f32(f32_to_bf16_operand(-below)), -std::ldexp(1.0f, -56));
}

}  // namespace
}  // namespace gyre
