#include "numerics/functions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <thread>
#include <vector>

#include "base/fp_env.h"
#include "numerics/scalar_vocabulary.h"

// A second copy of the text, where the machine's fma instruction may be used: fast enough for all
// 2^32 inputs, and a proof that a region gives the bits of the plain functions.
#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
#endif
namespace gyre::numerics::region {
using scalar::Float;
#include "numerics/functions.inl"

#define GYRE_REGION_COPY(name)        \
  inline float name##_copy(float x) { \
    return name(Float{x}).value;      \
  }
GYRE_REGION_COPY(exp)
GYRE_REGION_COPY(log)
GYRE_REGION_COPY(tanh)
GYRE_REGION_COPY(sigmoid)
GYRE_REGION_COPY(softplus)
GYRE_REGION_COPY(silu)
GYRE_REGION_COPY(gelu)
GYRE_REGION_COPY(gelu_erf)
GYRE_REGION_COPY(gelu_quick)
GYRE_REGION_COPY(sin)
GYRE_REGION_COPY(cos)
GYRE_REGION_COPY(exp_bounded)
#undef GYRE_REGION_COPY
}  // namespace gyre::numerics::region
#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif

namespace gyre::numerics {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

bool has_region_instructions() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return true;
#endif
}

double exp_reference(double x) {
  const double y = std::exp(x);
  return y < 0x1p-126 ? 0.0 : y;
}
double sigmoid_reference(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}
double times_logistic(long double x, long double w) {
  if (std::isnan(x)) return NAN;
  if (w > 1000) return static_cast<double>(x);
  if (w < -1000) return 0.0;
  return static_cast<double>(x / (1.0L + std::exp(-w)));
}
double silu_reference(double x) {
  return times_logistic(x, x);
}
double gelu_reference(double x) {
  const long double y = x;
  return times_logistic(y, 2.0L * std::sqrt(2.0L / M_PIl) * (y + 0.044715L * y * y * y));
}
double gelu_quick_reference(double x) {
  return times_logistic(x, 1.702L * x);
}
double gelu_erf_reference(double x) {
  if (std::fabs(x) > 1000) return x > 0 ? x : 0.0;
  return static_cast<double>(0.5L * x * std::erfc(-x * std::sqrt(0.5L)));
}
double softplus_reference(double x) {
  return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
}
double sin_reference(double x) {
  return std::fabs(x) > 131072 ? NAN : std::sin(x);
}
double cos_reference(double x) {
  return std::fabs(x) > 131072 ? NAN : std::cos(x);
}

struct Function {
  const char* name;
  float (*plain)(float);
  float (*region)(float);
  double (*reference)(double);
  double limit;  // documented in functions.h
};
const Function kFunctions[] = {
    {"exp", exp, region::exp_copy, exp_reference, 0.90},
    {"sigmoid", sigmoid, region::sigmoid_copy, sigmoid_reference, 0.80},
    {"silu", silu, region::silu_copy, silu_reference, 0.80},
    {"gelu", gelu, region::gelu_copy, gelu_reference, 0.80},
    {"gelu_erf", gelu_erf, region::gelu_erf_copy, gelu_erf_reference, 0.80},
    {"gelu_quick", gelu_quick, region::gelu_quick_copy, gelu_quick_reference, 0.80},
    {"tanh", tanh, region::tanh_copy, [](double x) { return std::tanh(x); }, 0.95},
    {"log", log, region::log_copy, [](double x) { return std::log(x); }, 0.85},
    {"softplus", softplus, region::softplus_copy, softplus_reference, 1.15},
    {"sin", sin, region::sin_copy, sin_reference, 0.90},
    {"cos", cos, region::cos_copy, cos_reference, 0.90},
};

// Distance in units of the last place of the exact result; a wrong NaN or infinity is enormous.
double ulps(float got, double want) {
  constexpr double wrong = 1e9;
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) == std::isnan(got) ? 0 : wrong;
  if (std::isinf(got))  // the exact value may round to infinity
    return (got > 0) == (want > 0) && std::fabs(want) >= 0x1.ffffffp127 ? 0 : wrong;
  if (std::isinf(want)) return wrong;
  int exponent = 0;
  std::frexp(want, &exponent);
  return std::fabs(got - want) / std::ldexp(1.0, std::max(exponent - 24, -149));
}

struct Worst {
  double error = 0;
  float at = 0;
  void see(const Function& f, float x, float y) {
    const double error_here = ulps(y, f.reference(x));
    if (error_here > error) error = error_here, at = x;
  }
};

void report(const Function& f, const Worst& w) {
  std::printf("  %-10s max %.4f ulp at %a\n", f.name, w.error, static_cast<double>(w.at));
  EXPECT_LE(w.error, f.limit) << f.name << " at " << w.at;
}

// 2^22 bit patterns spread over all floats, and 2^9 on each side of every power of two.
TEST(Functions, ErrorsStayBelowTheDocumentedLimits) {
  const FloatEnvironment environment;
  const bool region = has_region_instructions();
  for (const Function& f : kFunctions) {
    Worst worst;
    auto check = [&](uint32_t bits) {
      const float x = std::bit_cast<float>(bits);
      const float y = f.plain(x);
      worst.see(f, x, y);
      if (region && !std::isnan(y)) {
        ASSERT_EQ(std::bit_cast<uint32_t>(f.region(x)), std::bit_cast<uint32_t>(y)) << f.name << x;
      }
    };
    for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 1021)
      check(static_cast<uint32_t>(bits));
    for (uint32_t power = 0; power < 512; ++power)
      for (uint32_t near = 0; near < 1024; ++near) check((power << 23) + near - 512);
    report(f, worst);
  }
}

// All 2^32 inputs of every function: GYRE_EXHAUSTIVE=1, about an hour of one core.
TEST(Functions, ErrorsOverAllInputs) {
  if (std::getenv("GYRE_EXHAUSTIVE") == nullptr) GTEST_SKIP() << "set GYRE_EXHAUSTIVE=1";
  ASSERT_TRUE(has_region_instructions());
  for (const Function& f : kFunctions) {
    const unsigned count = std::max(1u, std::thread::hardware_concurrency());
    std::vector<Worst> worst(count);
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < count; ++t)
      threads.emplace_back([&, t] {
        const FloatEnvironment environment;
        Worst mine;
        for (uint64_t bits = t; bits < (uint64_t{1} << 32); bits += count) {
          const float x = std::bit_cast<float>(static_cast<uint32_t>(bits));
          mine.see(f, x, f.region(x));
        }
        worst[t] = mine;
      });
    for (std::thread& thread : threads) thread.join();
    report(f, *std::max_element(worst.begin(), worst.end(),
                                [](const Worst& a, const Worst& b) { return a.error < b.error; }));
    std::fflush(stdout);
  }
}

TEST(Functions, NanInNanOut) {
  for (const Function& f : kFunctions)
    for (uint32_t bits : {0x7fc00000u, 0xffc00000u, 0x7f800001u, 0xffffffffu, 0x7fc12345u})
      EXPECT_TRUE(std::isnan(f.plain(std::bit_cast<float>(bits)))) << f.name << std::hex << bits;
}

TEST(Functions, LimitsAndSigns) {
  EXPECT_EQ(exp(0.0f), 1.0f);
  EXPECT_EQ(exp(-0.0f), 1.0f);
  EXPECT_EQ(exp(-kInfinity), 0.0f);
  EXPECT_FALSE(std::signbit(exp(-kInfinity)));
  EXPECT_EQ(exp(kInfinity), kInfinity);
  EXPECT_GE(exp(-0x1.5d589ep6f), 0x1p-126f);
  EXPECT_EQ(std::bit_cast<uint32_t>(exp(std::nextafter(-0x1.5d589ep6f, -100.0f))), 0u);
  EXPECT_EQ(log(0.0f), -kInfinity);
  EXPECT_EQ(log(-0.0f), -kInfinity);
  EXPECT_EQ(log(1.0f), 0.0f);
  EXPECT_EQ(log(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(log(-1e-40f)));
  EXPECT_EQ(tanh(kInfinity), 1.0f);
  EXPECT_EQ(tanh(-kInfinity), -1.0f);
  EXPECT_TRUE(std::signbit(tanh(-0.0f)));
  EXPECT_EQ(sigmoid(kInfinity), 1.0f);
  EXPECT_EQ(sigmoid(-kInfinity), 0.0f);
  EXPECT_EQ(sigmoid(0.0f), 0.5f);
  EXPECT_EQ(softplus(kInfinity), kInfinity);
  EXPECT_EQ(softplus(-kInfinity), 0.0f);
  for (auto f : {silu, gelu, gelu_erf, gelu_quick}) {
    EXPECT_EQ(f(0.0f), 0.0f);
    EXPECT_EQ(f(kInfinity), kInfinity);
    EXPECT_EQ(f(-kInfinity), 0.0f);
    EXPECT_EQ(f(-3.4028235e38f), 0.0f);
    EXPECT_EQ(f(3.4028235e38f), 3.4028235e38f);
  }
  EXPECT_FALSE(std::isnan(sin(131072.0f)));
  EXPECT_TRUE(std::isnan(sin(std::nextafter(131072.0f, 1e9f))));
  EXPECT_TRUE(std::isnan(cos(-kInfinity)));
  EXPECT_EQ(cos(0.0f), 1.0f);
  EXPECT_TRUE(std::signbit(sin(-1e-40f)));
}

TEST(Functions, BoundedExpHasTheBitsOfExp) {
  if (!has_region_instructions()) GTEST_SKIP() << "needs avx2 and fma";
  for (uint32_t bits = 0x80000000u; bits <= 0xff800000u; bits += 97) {
    const float x = std::bit_cast<float>(bits);
    ASSERT_EQ(std::bit_cast<uint32_t>(region::exp_bounded_copy(x)), std::bit_cast<uint32_t>(exp(x)))
        << x;
  }
}

// Pins the bits: a change here is a new version of the contract (docs/contract.md). The same
// numbers must come out of every compiler and machine.
TEST(Functions, DigestOfTheBits) {
  const FloatEnvironment environment;
  const uint64_t expected[] = {0x02f8683a4081d7a1, 0x245ef2d703771bc3, 0xddce92beebceb43c,
                               0xd9ab429bacdcb7a5, 0x73a816eac20fa0af, 0xceaca6d70b7bc18b,
                               0x889bd1fc11d9e251, 0x6b80a1c49fa05f0a, 0x4055bdf4cf1223b7,
                               0x3080bcb2ba2cc566, 0x757cc5d4fe01ce86};
  size_t which = 0;
  for (const Function& f : kFunctions) {
    uint64_t digest = 0xcbf29ce484222325u;
    for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 65521) {
      const float y = f.plain(std::bit_cast<float>(static_cast<uint32_t>(bits)));
      const uint32_t word = std::isnan(y) ? 0x7fc00000u : std::bit_cast<uint32_t>(y);
      for (int byte = 0; byte < 4; ++byte)
        digest = (digest ^ ((word >> (8 * byte)) & 255)) * 0x100000001b3u;
    }
    EXPECT_EQ(digest, expected[which++]) << f.name << " 0x" << std::hex << digest;
  }
}

}  // namespace
}  // namespace gyre::numerics
