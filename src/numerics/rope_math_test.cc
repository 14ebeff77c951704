#include "numerics/rope_math.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <random>

namespace gyre::numerics {
namespace {

double ulps(double got, long double want) {
  int exponent = 0;
  std::frexp(want, &exponent);
  return static_cast<double>(std::fabs(got - want) / std::ldexp(1.0L, exponent - 53));
}

TEST(RopeMath, LogStaysBelowOneUlp) {
  std::mt19937_64 random(1);
  double worst = 0;
  for (int i = 0; i < 400000; ++i) {
    const double near_one = 1.0 + (std::uniform_real_distribution<double>(-0.5, 0.5)(random));
    const double wide = std::ldexp(near_one, static_cast<int>(random() % 2000) - 1040);
    for (double x : {near_one, wide})
      worst = std::max(worst, ulps(log_own(x), std::log((long double)x)));
  }
  RecordProperty("max_ulp", std::to_string(worst));
  EXPECT_LT(worst, 0.55);
}

// The arguments of rope tables: theta^(-2 i / d).
TEST(RopeMath, PowOfRopeBasesStaysBelowOneUlp) {
  double worst = 0;
  for (double base : {1e4, 5e5, 1e6, 1e7, 5e6, 10000.5, 8e7})
    for (int d : {2, 32, 64, 80, 96, 128, 192, 256, 512})
      for (int i = 0; i < d / 2; ++i) {
        const double e = -2.0 * i / d;
        worst =
            std::max(worst, ulps(pow_own(base, e), std::pow((long double)base, (long double)e)));
      }
  RecordProperty("max_ulp", std::to_string(worst));
  EXPECT_LT(worst, 0.8);
}

TEST(RopeMath, PowOverItsDomain) {
  std::mt19937_64 random(2);
  double worst = 0, worst_near = 0;
  for (int i = 0; i < 300000; ++i) {
    const double base = std::exp2(std::uniform_real_distribution<double>(-60, 60)(random));
    const double e = std::uniform_real_distribution<double>(-16, 16)(random);
    const long double want = std::pow((long double)base, (long double)e);
    const long double size = std::fabs(std::log2(want));
    if (size > 999) continue;
    const double error = ulps(pow_own(base, e), want);
    worst = std::max(worst, error);
    if (size <= 64) worst_near = std::max(worst_near, error);
  }
  EXPECT_LT(worst_near, 1.0);
  EXPECT_LT(worst, 16.0);
  EXPECT_EQ(pow_own(10000.0, 0.0), 1.0);
  EXPECT_EQ(pow_own(2.0, 10.0), 1024.0);
  for (double base : {0.0, -1.0, (double)INFINITY, (double)NAN})
    EXPECT_TRUE(std::isnan(pow_own(base, 0.5))) << base;
  EXPECT_TRUE(std::isnan(pow_own(10.0, 1e300)));
  EXPECT_TRUE(std::isnan(pow_own(10.0, NAN)));
}

TEST(RopeMath, SincosStaysBelowOneUlpAndHitsTheQuadrants) {
  std::mt19937_64 random(3);
  double worst = 0;
  auto check = [&](double x) {
    double s = 0, c = 0;
    sincos_own(x, &s, &c);
    // x87 and quad references reduce the argument with enough digits for |x| <= 2^27.
    worst = std::max({worst, ulps(s, std::sin((long double)x)), ulps(c, std::cos((long double)x))});
  };
  for (int i = 0; i < 300000; ++i) {
    check(std::uniform_real_distribution<double>(-4, 4)(random));
    check(std::uniform_real_distribution<double>(-0x1p27, 0x1p27)(random));
    check(static_cast<double>(random() % (1u << 27)));
    check(static_cast<double>(random() % 131072) * std::pow(1e6, -(double)(random() % 64) / 64));
  }
  // Doubles nearest to multiples of pi / 2, where all digits cancel.
  for (int n = 1; n < 200000; ++n) check(n * (M_PI / 2));
  RecordProperty("max_ulp", std::to_string(worst));
  EXPECT_LT(worst, 0.9);
}

TEST(RopeMath, Limits) {
  double s = 1, c = 0;
  sincos_own(0.0, &s, &c);
  EXPECT_EQ(s, 0.0);
  EXPECT_EQ(c, 1.0);
  for (double x : {0x1.000001p27, -1e300, (double)INFINITY, (double)NAN}) {
    sincos_own(x, &s, &c);
    EXPECT_TRUE(std::isnan(s) && std::isnan(c)) << x;
  }
  EXPECT_EQ(log_own(1.0), 0.0);
  EXPECT_EQ(log_own(0.0), -INFINITY);
  EXPECT_EQ(log_own(INFINITY), INFINITY);
  EXPECT_TRUE(std::isnan(log_own(-1.0)));
  EXPECT_TRUE(std::isnan(log_own(NAN)));
}

// Pins the bits of rope tables on every compiler and machine: a change is a new contract version.
TEST(RopeMath, DigestOfTheBits) {
  uint64_t digest = 7;
  for (int i = 0; i < 100000; ++i) {
    double s = 0, c = 0;
    const double p = pow_own(1e6, -(i % 64) / 64.0);
    sincos_own(i * p, &s, &c);
    for (double v : {p, s, c, log_own(i + 0.5)})
      digest = (digest ^ std::bit_cast<uint64_t>(v)) * 0x100000001b3u;
  }
  EXPECT_EQ(digest, 0xb9edd6eb954bb9feu) << std::hex << digest;
}

}  // namespace
}  // namespace gyre::numerics
