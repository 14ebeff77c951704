#include "numerics/rounding.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <vector>

namespace gyre::numerics {
namespace {

struct Block {
  bool finite = false;
  float d = -1;
  int32_t sum = -1;
  int8_t q[32] = {};
};

Block quantize(const std::vector<float>& x) {
  Block b;
  std::fill(b.q, b.q + 32, int8_t{99});
  b.finite = quantize_block32(x.data(), x.size(), b.q, &b.d, &b.sum);
  return b;
}

TEST(Rounding, TiesGoToEven) {
  for (int i = -1000; i <= 1000; ++i)
    for (float part : {-0.5f, -0.25f, 0.0f, 0.25f, 0.5f}) {
      const float x = static_cast<float>(i) + part;
      EXPECT_EQ(round_half_even(x), std::lrint(static_cast<double>(x))) << x;
    }
  EXPECT_EQ(round_half_even(std::nextafter(0.5f, 1.0f)), 1);
  EXPECT_EQ(round_half_even(std::nextafter(0.5f, 0.0f)), 0);
}

TEST(Rounding, BlockFollowsTheContract) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 20000; ++trial) {
    const size_t n = 1 + random() % 32;
    const int exponent = static_cast<int>(random() % 250) - 125;
    std::vector<float> x(n);
    float amax = 0;
    for (float& v : x) {
      v = std::ldexp(std::uniform_real_distribution<float>(-1, 1)(random), exponent);
      if (random() % 8 == 0)
        v = std::ldexp(static_cast<float>(random() % 255) - 127.0f, exponent - 7);
      amax = std::max(amax, std::fabs(v));
    }
    const Block b = quantize(x);
    ASSERT_TRUE(b.finite);
    if (amax < 0x1p-100f) {
      EXPECT_EQ(b.d, 0.0f);
      EXPECT_EQ(b.sum, 0);
      continue;
    }
    EXPECT_EQ(std::bit_cast<uint32_t>(b.d), std::bit_cast<uint32_t>(amax / 127.0f) & ~3u);
    int32_t sum = 0;
    for (size_t i = 0; i < 32; ++i) {
      const double scaled = i < n ? static_cast<double>(x[i] * (127.0f / amax)) : 0.0;
      EXPECT_EQ(b.q[i], std::nearbyint(std::min(127.0, std::max(-127.0, scaled))));
      sum += b.q[i];
      if (i < n) {
        EXPECT_LE(std::fabs(b.q[i] * b.d - x[i]), b.d * 0.50005f);
      }
    }
    EXPECT_EQ(b.sum, sum);
  }
}

TEST(Rounding, LimitsOfABlock) {
  const Block edge = quantize({0x1p-100f, -0x1p-100f});
  EXPECT_TRUE(edge.finite);
  EXPECT_EQ(edge.q[0], 127);
  EXPECT_EQ(edge.q[1], -127);
  EXPECT_GT(edge.d, 0.0f);
  const Block below = quantize({std::nextafter(0x1p-100f, 0.0f), 1e-40f});
  EXPECT_TRUE(below.finite);
  EXPECT_EQ(below.d, 0.0f);
  EXPECT_EQ(below.q[0], 0);
  const Block largest = quantize({3.4028235e38f, -3.4028235e38f, 1.0f});
  EXPECT_TRUE(largest.finite);
  EXPECT_EQ(largest.q[0], 127);
  EXPECT_EQ(largest.q[1], -127);
  EXPECT_EQ(quantize({-0.0f, 0.0f}).d, 0.0f);
  for (float bad : {INFINITY, -INFINITY, NAN, -NAN}) {
    const Block b = quantize({1.0f, bad, 2.0f});
    EXPECT_FALSE(b.finite);
    EXPECT_EQ(b.d, 0.0f);
    EXPECT_EQ(b.sum, 0);
    for (int8_t q : b.q) EXPECT_EQ(q, 0);
  }
}

// What the cleared bits are for: d * (float)(idot + 2^23) - d * 2^23 in one fma is d * idot
// exactly.
TEST(Rounding, ScaleTimesMagicIsExact) {
  std::mt19937 random(6);
  for (int i = 0; i < 100000; ++i) {
    const float x = std::ldexp(1.0f + std::generate_canonical<float, 24>(random), -3);
    const Block b = quantize({x});
    const double product = static_cast<double>(b.d) * 12582912.0;  // 1.5 * 2^23
    EXPECT_EQ(static_cast<double>(static_cast<float>(product)), product);
  }
}

}  // namespace
}  // namespace gyre::numerics
