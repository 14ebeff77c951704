// The affine code against packed rows made by numpy, and against the error bound that follows from
// its arithmetic.
#include "kernels/codes/affine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/fp_env.h"
#include "kernels/codes/bit_stream.h"
#include "numerics/half.h"

namespace gyre::kernels {
namespace {

constexpr uint32_t kBits[] = {2, 3, 4, 5, 6, 8};
constexpr uint32_t kGroups[] = {32, 64, 128};

std::string golden(const std::string& name) {
  std::ifstream in(std::string(GYRE_SOURCE_DIR) + "/tests/golden/kv/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

template <class Check>
void for_every_code(Check check) {
  for (uint32_t bits : kBits) {
    for (uint32_t group : kGroups) check(RowCode{CodeKind::affine, bits, group});
  }
}

std::vector<std::byte> encode(const RowCode& code, std::span<const float> x, bool finite = true) {
  std::vector<std::byte> row(code.row_bytes(static_cast<uint32_t>(x.size())), std::byte{0xaa});
  EXPECT_EQ(affine_encode_row(code, x, row.data()), finite);
  return row;
}

TEST(Affine, RowsEqualTheGoldens) {
  FloatEnvironment environment;
  const std::string rows = golden("rows.bin");
  constexpr size_t kDim = 256;
  ASSERT_EQ(rows.size(), 22 * kDim * 2);
  for_every_code([&](const RowCode& code) {
    const std::string want =
        golden("affine_" + std::to_string(code.bits) + "_" + std::to_string(code.group) + ".bin");
    const size_t bytes = code.row_bytes(kDim);
    ASSERT_EQ(want.size(), 22 * bytes);
    for (size_t r = 0; r < 22; ++r) {
      std::vector<float> x(kDim);
      for (size_t i = 0; i < kDim; ++i)
        x[i] = bf16_to_f32(
            get_u16(reinterpret_cast<const std::byte*>(rows.data()) + (r * kDim + i) * 2));
      const auto row = encode(code, x);
      EXPECT_EQ(std::memcmp(row.data(), want.data() + r * bytes, bytes), 0)
          << code.bits << " bits, group " << code.group << ", row " << r;
    }
  });
}

TEST(Affine, RowsAreRoundedToBf16First) {
  FloatEnvironment environment;
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> x(128), rounded(128);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = normal(random);
    rounded[i] = bf16_to_f32(f32_to_bf16(x[i]));
  }
  x[5] = 1e-20f;
  rounded[5] = 0.0f;
  for_every_code([&](const RowCode& code) { EXPECT_EQ(encode(code, x), encode(code, rounded)); });
}

TEST(Affine, TheErrorStaysWithinItsBound) {
  FloatEnvironment environment;
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  std::uniform_int_distribution<int> exponent(-12, 40), shift(-3, 3);
  double worst_share = 0;
  for_every_code([&](const RowCode& code) {
    const double n = (1 << code.bits) - 1;
    for (int trial = 0; trial < 200; ++trial) {
      std::vector<float> x(code.group), out(code.group);
      const int e = exponent(random);
      const float centre = static_cast<float>(shift(random));
      for (float& value : x)
        value = bf16_to_f32(f32_to_bf16(std::ldexp(normal(random) + centre, e)));
      const auto row = encode(code, x);
      affine_decode_row(code, row.data(), out);
      double lo = x[0], hi = 0;
      for (const float value : x) {
        lo = std::min<double>(lo, value);
        hi = std::max<double>(hi, value);
      }
      // The step is at most (hi - lo) / (n - 1), the last code at most one step short, and a bf16
      // scale moves code n by at most n / 256 steps.
      const double bound = (hi - lo) / (n - 1) * (1 + n / 256) * 1.0001;
      for (size_t i = 0; i < x.size(); ++i) {
        const double error = std::fabs(double{out[i]} - x[i]);
        ASSERT_LE(error, bound) << code.bits << " bits, value " << x[i];
        worst_share = std::max(worst_share, error / bound);
        const uint32_t c = get_code(row.data(), i, code.bits);
        if (c == static_cast<uint32_t>(n)) continue;
        const double step =
            std::fabs(bf16_to_f32(get_u16(row.data() + code.group * code.bits / 8)));
        ASSERT_LE(error, step * (0.5 + c / 256.0) * 1.005) << code.bits << " bits, code " << c;
      }
    }
  });
  EXPECT_GT(worst_share, 0.5);  // the bound is not idle
}

TEST(Affine, ZeroGroupsAreExactAndTheEdgeIsKept) {
  FloatEnvironment environment;
  for_every_code([](const RowCode& code) {
    std::vector<float> x(2 * code.group), out(2 * code.group);
    for (size_t i = code.group; i < x.size(); ++i) x[i] = i % 2 != 0 ? -2.75f : 1.5f;
    x[3] = -0.0f;
    const auto row = encode(code, x);
    affine_decode_row(code, row.data(), out);
    for (size_t i = 0; i < code.group; ++i) {
      EXPECT_EQ(std::bit_cast<uint32_t>(out[i]), 0u);
      EXPECT_EQ(get_code(row.data(), i, code.bits), 0u);
    }
    EXPECT_EQ(out[code.group + 1], -2.75f);  // the edge is code 0, and its bias is exact
  });
}

TEST(Affine, WhatIsNotFiniteBecomesAZeroRow) {
  FloatEnvironment environment;
  const float inf = std::numeric_limits<float>::infinity();
  for (const float bad : {inf, -inf, std::nanf(""), 0x1p100f, -0x1p100f, 3.4e38f, 0x1.ffp99f}) {
    for_every_code([&](const RowCode& code) {
      std::vector<float> x(256, 1.0f), zeros(256), out(256, 7.0f);
      x[200] = bad;
      const auto row = encode(code, x, false);
      EXPECT_EQ(row, encode(code, zeros));
      affine_decode_row(code, row.data(), out);
      EXPECT_EQ(out, zeros);
    });
  }
  for_every_code([](const RowCode& code) {  // the largest that is accepted
    std::vector<float> x(128, 0x1.fep99f), out(128);
    x[0] = -0x1.fep99f;
    const auto row = encode(code, x);
    affine_decode_row(code, row.data(), out);
    for (const float value : out) EXPECT_TRUE(std::isfinite(value));
    const std::vector<float> equal(128, 0x1.fep99f);
    const auto again = encode(code, equal);
    affine_decode_row(code, again.data(), out);
    EXPECT_EQ(out, equal);
  });
}

TEST(BitStream, CodesComeBackAndFillTheBytes) {
  std::mt19937 random(5);
  for (uint32_t bits = 1; bits <= 8; ++bits) {
    std::vector<std::byte> stream(bits * 5 + 1);
    std::vector<uint32_t> codes(40);
    for (size_t i = 0; i < codes.size(); ++i) {
      codes[i] = random() & ((1u << bits) - 1);
      put_code(stream.data(), i, bits, codes[i]);
    }
    EXPECT_EQ(stream.back(), std::byte{0});
    for (size_t i = 0; i < codes.size(); ++i) EXPECT_EQ(get_code(stream.data(), i, bits), codes[i]);
  }
}

}  // namespace
}  // namespace gyre::kernels
