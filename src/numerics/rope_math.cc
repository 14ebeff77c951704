#include "numerics/rope_math.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace gyre::numerics {
namespace {

struct DoublePair {
  double high, low;
};

DoublePair two_sum(double a, double b) {
  const double sum = a + b;
  const double b_part = sum - a;
  return {sum, (a - (sum - b_part)) + (b - b_part)};
}

DoublePair two_product(double a, double b) {
  const double product = a * b;
  return {product, std::fma(a, b, -product)};
}

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kRoundMagic = 0x1.8p52;

// log(x) as a pair, relative error about 2^-58, for normal or subnormal x > 0.
// x = 2^k m, s = (m - 1) / (m + 1), log m = 2 s + 2 s^3 (1/3 + s^2 / 5 + s^4 / 7 + ...).
DoublePair log_pair(double x) {
  int64_t k = 0;
  if (x < 0x1p-1022) {
    x *= 0x1p54;
    k = -54;
  }
  constexpr uint64_t root_half = 0x3fe6a09e667f3bcd;
  const uint64_t moved = std::bit_cast<uint64_t>(x) + (0x3ff0000000000000 - root_half);
  k += static_cast<int64_t>(moved >> 52) - 1023;
  const double m = std::bit_cast<double>((moved & 0x000fffffffffffff) + root_half);
  const double numerator = m - 1.0;  // exact
  const DoublePair divisor = two_sum(m, 1.0);
  const double s = numerator / divisor.high;
  const double s_low = (std::fma(-s, divisor.high, numerator) - s * divisor.low) / divisor.high;
  const double z = s * s;
  double p = 2.0 / 27.0;
  for (int odd = 25; odd >= 3; odd -= 2) p = std::fma(p, z, 2.0 / odd);
  // k ln2: the first part has 32 bits, so its product with k is exact.
  const double kd = static_cast<double>(k);
  const DoublePair sum = two_sum(kd * 0x1.62e42ffp-1, 2.0 * s);
  double low = std::fma(s * z, p, 2.0 * s_low);
  low = std::fma(kd, -0x1.718432a1b0e26p-35, low);
  return two_sum(sum.high, sum.low + low);
}

// exp(a) for |a| <= 700, from 2^n exp(r): Taylor to r^14 / 14!.
double exp_pair(DoublePair a) {
  const double n = std::fma(a.high, 0x1.71547652b82fep0, kRoundMagic) - kRoundMagic;
  const double first = std::fma(n, -0x1.62e42fefa39efp-1, a.high);
  const DoublePair r = two_sum(first, std::fma(n, -0x1.abc9e3b39803fp-56, a.low));
  double factorial = 87178291200.0;  // 14!
  double p = 1.0 / factorial;
  for (int i = 14; i > 2; --i) {
    factorial /= i;
    p = std::fma(p, r.high, 1.0 / factorial);
  }
  const double tail = std::fma(r.high * r.high, p, r.low);
  const DoublePair one = two_sum(1.0, r.high);
  const double value = one.high + (one.low + tail);
  const auto exponent = static_cast<int64_t>(n);
  return value * std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52);
}

}  // namespace

double log_own(double x) {
  if (!(x >= 0.0)) return kNaN;
  if (x == 0.0) return -std::numeric_limits<double>::infinity();
  if (x > std::numeric_limits<double>::max()) return x;
  return log_pair(x).high;
}

double pow_own(double base, double exponent) {
  if (!(base > 0.0 && base <= std::numeric_limits<double>::max())) return kNaN;
  const DoublePair log = log_pair(base);
  DoublePair product = two_product(exponent, log.high);
  product.low = std::fma(exponent, log.low, product.low);
  if (!(std::fabs(product.high) <= 693.0)) return kNaN;
  return exp_pair(product);
}

void sincos_own(double x, double* sine, double* cosine) {
  if (!(std::fabs(x) <= 0x1p27)) {
    *sine = *cosine = kNaN;
    return;
  }
  const double n = std::fma(x, 0x1.45f306dc9c883p-1, kRoundMagic) - kRoundMagic;
  // r = x - n pi/2, pi/2 in three parts; the first step is exact.
  const double first = std::fma(n, -0x1.921fb54442d18p0, x);
  const DoublePair product = two_product(n, -0x1.1a62633145c07p-54);
  DoublePair r = two_sum(first, product.high);
  r = two_sum(r.high, r.low + std::fma(n, 0x1.f1976b7ed8fbcp-110, product.low));
  const double z = r.high * r.high;
  // Taylor: sin to r^17 / 17!, cos to r^18 / 18!.
  double s = 0.0, c = 0.0, factorial = 6402373705728000.0;  // 18!
  for (int i = 18; i > 2; --i) {
    double& sum = i % 2 == 0 ? c : s;
    const double sign = (i / 2) % 2 == 0 ? 1.0 : -1.0;
    sum = std::fma(sum, z, sign / factorial);
    factorial /= i;
  }
  const double sin_r = r.high + std::fma(s, z * r.high, r.low);
  const DoublePair base = two_sum(1.0, -0.5 * z);
  // cos r needs z in full: z_low = r^2 - z.
  const double z_low = std::fma(r.high, r.high, -z);
  const double cos_r =
      base.high + (base.low + std::fma(c, z * z, -std::fma(r.high, r.low, 0.5 * z_low)));
  const auto quadrant = static_cast<int64_t>(n) & 3;
  const double sines[4] = {sin_r, cos_r, -sin_r, -cos_r};
  const double cosines[4] = {cos_r, -sin_r, -cos_r, sin_r};
  *sine = sines[quadrant];
  *cosine = cosines[quadrant];
}

}  // namespace gyre::numerics
