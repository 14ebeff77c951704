// Row operators: every instruction set against the reference bit for bit, the reference against
// plain double arithmetic.
#include "kernels/rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <random>
#include <vector>

#include "base/fp_env.h"
#include "kernels/attention_check.h"

namespace gyre::kernels {
namespace {

using Row = std::vector<float>;
constexpr uint32_t kLengths[] = {1,  2,   3,   15,  16,  17,  31,  48,  63,  64,
                                 65, 100, 127, 128, 129, 191, 576, 640, 1000};

Row random_row(uint32_t n, uint32_t seed, float spread = 3.0f) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.1f, spread);
  Row x(n);
  for (float& v : x) v = normal(random);
  return x;
}

::testing::AssertionResult same_bits(const Row& a, const Row& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(&a[i], &b[i], sizeof(float)) != 0)
      return ::testing::AssertionFailure() << "element " << i << ": " << a[i] << " and " << b[i];
  }
  return a.size() == b.size() ? ::testing::AssertionSuccess() : ::testing::AssertionFailure();
}

TEST(Rows, EveryInstructionSetGivesTheReferenceBits) {
  FloatEnvironment environment;
  for (Isa isa : available_isas()) EXPECT_EQ(check::compare_rows(isa), "") << isa_name(isa);
}

TEST(Rows, RopeIsTheSameBitsInEveryInstructionSet) {
  FloatEnvironment environment;
  for (Isa isa : available_isas()) {
    for (uint32_t dim : {2u, 32u, 64u, 80u, 96u, 128u, 256u, 600u}) {
      for (uint32_t pairs : {dim / 2, dim / 4, 1u}) {
        const Row c = random_row(pairs, dim), s = random_row(pairs, dim + 1);
        for (RopeStyle style : {RopeStyle::halves, RopeStyle::adjacent}) {
          Row a = random_row(3 * dim, dim + 2), b = a;
          row_ops(Isa::scalar).rope(a.data(), 3, dim, pairs, style, c.data(), s.data());
          row_ops(isa).rope(b.data(), 3, dim, pairs, style, c.data(), s.data());
          EXPECT_TRUE(same_bits(a, b)) << isa_name(isa) << ", dim " << dim << ", pairs " << pairs;
        }
      }
    }
  }
}

TEST(Rows, RopeRotatesThePairsThatItsStyleNames) {
  FloatEnvironment environment;
  const uint32_t dim = 8, pairs = 3;  // the last two elements stay
  const float cosine[] = {0.6f, 0.8f, -1.0f}, sine[] = {0.8f, -0.6f, 0.0f};
  for (RopeStyle style : {RopeStyle::halves, RopeStyle::adjacent}) {
    const Row x = random_row(dim, 7);
    Row y = x;
    row_ops(Isa::scalar).rope(y.data(), 1, dim, pairs, style, cosine, sine);
    for (uint32_t i = 0; i < pairs; ++i) {
      const uint32_t a = style == RopeStyle::halves ? i : 2 * i;
      const uint32_t b = style == RopeStyle::halves ? i + pairs : 2 * i + 1;
      EXPECT_NEAR(y[a], double(x[a]) * cosine[i] - double(x[b]) * sine[i], 1e-5);
      EXPECT_NEAR(y[b], double(x[a]) * sine[i] + double(x[b]) * cosine[i], 1e-5);
    }
    EXPECT_EQ(y[6], x[6]);
    EXPECT_EQ(y[7], x[7]);
  }
}

// Sums of n f32 values by lanes have at most n / 64 + 6 roundings in a row.
TEST(Rows, NormsAgreeWithDouble) {
  FloatEnvironment environment;
  for (uint32_t n : kLengths) {
    const Row x = random_row(n, n), w = random_row(n, n + 1), b = random_row(n, n + 2);
    double squares = 0, mean = 0, deviation = 0;
    for (float v : x) squares += double(v) * v, mean += double(v) / n;
    for (float v : x) deviation += (v - mean) * (v - mean);
    const double rms = 1 / std::sqrt(squares / n + 1e-6), r = 1 / std::sqrt(deviation / n + 1e-2);
    Row y(n), z(n);
    row_ops(Isa::scalar).rms_norm(x.data(), w.data(), 1e-6f, n, y.data());
    row_ops(Isa::scalar).layer_norm(x.data(), w.data(), b.data(), 1e-2f, n, z.data());
    const double epsilon = (n / 64 + 12) * 0x1p-24;
    for (uint32_t i = 0; i < n; ++i) {
      EXPECT_NEAR(y[i], x[i] * rms * w[i], epsilon * std::fabs(x[i] * rms * w[i]));
      const double scale = (std::fabs(x[i]) + 4.0) * r * std::fabs(w[i]) + std::fabs(b[i]);
      EXPECT_NEAR(z[i], (x[i] - mean) * r * w[i] + b[i], 2 * epsilon * scale) << n;
    }
  }
}

TEST(Rows, GatesAndCapsAgreeWithDouble) {
  FloatEnvironment environment;
  const uint32_t n = 500;
  const Row g = random_row(n, 1, 4.0f), u = random_row(n, 2);
  Row y(n);
  const auto check = [&](Activation act, auto exact) {
    row_ops(Isa::scalar).glu(act, g.data(), u.data(), n, y.data());
    for (uint32_t i = 0; i < n; ++i) {
      const double want = exact(double(g[i])) * u[i];
      EXPECT_NEAR(y[i], want, 4 * 0x1p-24 * std::fabs(want) + 1e-37) << g[i];
    }
  };
  check(Activation::silu, [](double x) { return x / (1 + std::exp(-x)); });
  check(Activation::gelu_erf, [](double x) { return x * std::erfc(-x / std::sqrt(2.0)) / 2; });
  check(Activation::gelu_quick, [](double x) { return x / (1 + std::exp(-1.702 * x)); });
  check(Activation::gelu_tanh, [](double x) {
    return x / (1 + std::exp(-2 * std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
  });
  check(Activation::relu, [](double x) { return std::max(x, 0.0); });
  check(Activation::identity, [](double x) { return x; });
  row_ops(Isa::scalar).softcap(g.data(), 5.0f, n, y.data());
  for (uint32_t i = 0; i < n; ++i)
    EXPECT_NEAR(y[i], 5 * std::tanh(double(g[i]) / 5), 5 * 0x1p-22) << g[i];
}

TEST(Rows, AllFiniteFindsOneBadElementAnywhere) {
  for (Isa isa : available_isas()) {
    for (uint32_t n : {1u, 16u, 17u, 100u}) {
      Row x = random_row(n, n);
      x[0] = std::numeric_limits<float>::max();
      EXPECT_TRUE(row_ops(isa).all_finite(x.data(), n));
      for (uint32_t i = 0; i < n; ++i) {
        for (float bad : {HUGE_VALF, -HUGE_VALF, std::nanf("")}) {
          Row y = x;
          y[i] = bad;
          EXPECT_FALSE(row_ops(isa).all_finite(y.data(), n)) << isa_name(isa) << " " << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace gyre::kernels
