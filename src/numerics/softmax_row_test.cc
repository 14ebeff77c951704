#include "numerics/softmax_row.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "numerics/functions.h"

namespace gyre::numerics {
namespace {

// The definition, with the scalar exp and libm's rounding.
uint64_t weight(float x, float maximum) {
  return static_cast<uint64_t>(std::nearbyint(std::ldexp(double{exp(x - maximum)}, 40)));
}

TEST(SoftmaxRow, WeightsEqualTheirDefinition) {
  std::mt19937 random(11);
  for (size_t n : {1u, 7u, 64u, 1000u, 4099u}) {
    std::vector<float> x(n);
    for (float& v : x) v = std::normal_distribution<float>(0, 9)(random);
    x[n / 2] = -3e38f;
    const RowLimits limits = row_limits(x.data(), n);
    ASSERT_TRUE(limits.finite);
    float maximum = x[0];
    for (float v : x) maximum = std::max(maximum, v);
    EXPECT_EQ(limits.maximum, maximum);
    std::vector<uint64_t> w(n);
    const uint64_t sum = softmax_weights(x.data(), n, maximum, w.data());
    uint64_t want = 0;
    for (size_t i = 0; i < n; ++i) {
      ASSERT_EQ(w[i], weight(x[i], maximum)) << x[i] - maximum;
      want += w[i];
    }
    EXPECT_EQ(sum, want);
    EXPECT_EQ(softmax_weight_sum(x.data(), n, maximum), want);
  }
}

TEST(SoftmaxRow, WeightsRoundHalfToEven) {
  const std::vector<float> x = {0.0f, -0.0f, -std::numeric_limits<float>::max(), -27.7f, -28.5f};
  std::vector<uint64_t> w(x.size());
  softmax_weights(x.data(), x.size(), 0.0f, w.data());
  EXPECT_EQ(w[0], kWeightOne);
  EXPECT_EQ(w[1], kWeightOne);
  EXPECT_EQ(w[2], 0u);
  EXPECT_EQ(w[3], 1u);
  EXPECT_EQ(w[4], 0u);
}

TEST(SoftmaxRow, FindsNonFinite) {
  std::vector<float> x(1003, -2.0f);
  EXPECT_EQ(row_limits(x.data(), x.size()).maximum, -2.0f);
  for (float bad : {INFINITY, -INFINITY, NAN, -NAN})
    for (size_t at : {0u, 500u, 1002u}) {
      const float before = std::exchange(x[at], bad);
      EXPECT_FALSE(row_limits(x.data(), x.size()).finite);
      x[at] = before;
    }
  EXPECT_TRUE(row_limits(x.data(), x.size()).finite);
}

}  // namespace
}  // namespace gyre::numerics
