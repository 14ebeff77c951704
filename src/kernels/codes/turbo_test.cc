// The turbo code: rows coded in exact rationals by the script that makes the codebooks, the
// rotation's algebra, and the loss beside what theory gives for each codebook.
#include "kernels/codes/turbo.h"

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

std::string golden_path(const std::string& name) {
  return std::string(GYRE_SOURCE_DIR) + "/tests/golden/kv/" + name;
}

std::vector<float> random_row(std::mt19937& random, size_t dim) {
  std::normal_distribution<float> normal;
  std::vector<float> out(dim);
  for (float& value : out) value = normal(random);
  return out;
}

double squares(std::span<const float> x) {
  double sum = 0;
  for (const float value : x) sum += double{value} * value;
  return sum;
}

std::vector<std::byte> encode(const Rotation& rotation, uint32_t bits, std::span<const float> x,
                              bool finite = true) {
  const size_t bytes = RowCode{CodeKind::turbo, bits, 0}.row_bytes(rotation.dim());
  std::vector<std::byte> row(bytes, std::byte{0xaa});
  EXPECT_EQ(turbo_encode_row(rotation, bits, x, row.data()), finite);
  return row;
}

TEST(Turbo, RowsEqualTheGoldens) {
  FloatEnvironment environment;
  std::ifstream in(golden_path("turbo.bin"), std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(in), {}};
  const auto* bytes = reinterpret_cast<const std::byte*>(all.data());
  size_t at = 0, count = 0;
  while (at + 8 <= all.size()) {
    const uint32_t dim = get_u16(bytes + at), bits = get_u16(bytes + at + 4);
    at += 8;
    const Rotation rotation = *Rotation::make(dim);
    std::vector<float> x(dim);
    for (float& value : x) {
      value = bf16_to_f32(get_u16(bytes + at));
      at += 2;
    }
    const auto row = encode(rotation, bits, x);
    ASSERT_LE(at + row.size(), all.size());
    EXPECT_EQ(std::memcmp(row.data(), bytes + at, row.size()), 0)
        << "dimension " << dim << ", " << bits << " bits, row " << count % 5;
    at += row.size();
    ++count;
  }
  EXPECT_EQ(at, all.size());
  EXPECT_EQ(count, 6u * 6 * 5);
}

TEST(Turbo, CodebooksAreTheFixedPointOfTheirDensity) {
  // Independent of the script: conditional means by a plain sum over a fine grid.
  for (uint32_t dim : {32u, 64u, 128u, 256u, 512u}) {
    for (uint32_t bits : kBits) {
      const auto half = turbo_codebook(dim, bits);
      ASSERT_EQ(half.size(), size_t{1} << (bits - 1));
      double border = 0;
      for (size_t i = 0; i < half.size(); ++i) {
        const double value = bf16_to_f32(half[i]);
        const double next = i + 1 < half.size() ? (value + bf16_to_f32(half[i + 1])) / 2
                                                : std::min(std::sqrt(dim * 1.0), 12.0);
        double mass = 0, first = 0;
        constexpr int kSteps = 4000;
        for (int s = 0; s < kSteps; ++s) {
          const double z = border + (s + 0.5) * (next - border) / kSteps;
          const double f = std::pow(1 - z * z / dim, (dim - 3) / 2.0);
          mass += f;
          first += f * z;
        }
        // Values and both borders are rounded to 8 significant bits.
        EXPECT_NEAR(first / mass, value, value / 128) << dim << " " << bits << " " << i;
        border = next;
      }
    }
  }
}

TEST(Turbo, TheRotationIsOrthogonalAndSpreads) {
  FloatEnvironment environment;
  std::mt19937 random(1);
  for (uint32_t dim : {32u, 40u, 64u, 80u, 96u, 112u, 128u, 192u, 256u, 576u, 1024u}) {
    const Rotation rotation = *Rotation::make(dim);
    const std::vector<float> x = random_row(random, dim), y = random_row(random, dim);
    std::vector<float> rx = x, ry = y;
    rotation.forward(rx);
    rotation.forward(ry);
    double dot = 0, rotated = 0;
    for (size_t i = 0; i < dim; ++i) {
      dot += double{x[i]} * y[i];
      rotated += double{rx[i]} * ry[i];
    }
    EXPECT_NEAR(rotated, dot, 2e-5 * std::sqrt(squares(x) * squares(y))) << dim;
    EXPECT_NEAR(squares(rx), squares(x), 1e-5 * squares(x)) << dim;
    rotation.backward(rx);
    for (size_t i = 0; i < dim; ++i) ASSERT_NEAR(rx[i], x[i], 1e-5) << dim;
    // A single large value ends nowhere in particular.
    for (size_t i = 0; i < dim; ++i) {
      std::vector<float> one(dim);
      one[i] = 1.0f;
      rotation.forward(one);
      double most = 0;
      for (const float value : one) most = std::max(most, std::fabs(double{value}));
      EXPECT_LE(most, (dim == std::bit_floor(dim) ? 1.001 : 5) / std::sqrt(dim)) << dim << " " << i;
    }
  }
}

TEST(Turbo, TheSeedChangesTheSigns) {
  FloatEnvironment environment;
  std::mt19937 random(2);
  const std::vector<float> x = random_row(random, 64);
  std::vector<float> a = x, b = x, c = x;
  Rotation::make(64, 1)->forward(a);
  Rotation::make(64, 2)->forward(b);
  Rotation::make(64, uint64_t{1} << 40 | 1)->forward(c);
  EXPECT_NE(a, b);
  EXPECT_NE(a, c);
}

TEST(Turbo, OtherSizesAreRefusedByName) {
  for (uint32_t dim : {0u, 8u, 31u, 36u, 1025u, 1032u, 4096u}) {
    const auto made = Rotation::make(dim);
    ASSERT_FALSE(made.ok()) << dim;
    EXPECT_EQ(made.error().code, ErrorCode::unsupported);
    EXPECT_NE(made.error().text.find("head size"), std::string::npos);
  }
}

// Squared error relative to the row's, on average over rows: as stored, and with the row's norm in
// place of the stored factor.
struct Loss {
  double stored = 0, with_norm = 0;
};

// `spiky`: a sixteenth of the channels carries the energy, always the same ones.
Loss loss(uint32_t dim, uint32_t bits, int rows, bool spiky) {
  std::mt19937 random(dim * 16 + bits);
  const Rotation rotation = *Rotation::make(dim);
  const auto codebook = turbo_codebook(dim, bits);
  Loss total;
  for (int r = 0; r < rows; ++r) {
    std::vector<float> x = random_row(random, dim), out(dim);
    for (size_t i = 0; i < dim; ++i)
      x[i] = bf16_to_f32(f32_to_bf16(spiky && i % 16 == 5 ? 20 * x[i] : x[i]));
    const auto row = encode(rotation, bits, x);
    turbo_decode_row(rotation, bits, row.data(), out);
    std::vector<float> rotated = x;
    rotation.forward(rotated);
    const double norm = std::sqrt(squares(x) / dim);
    double stored = 0, with_norm = 0;
    for (size_t i = 0; i < dim; ++i) {
      stored += std::pow(double{out[i]} - x[i], 2);
      const double value = turbo_value(codebook, get_code(row.data(), i, bits));
      with_norm += std::pow(norm * value - rotated[i], 2);
    }
    total.stored += stored / squares(x) / rows;
    total.with_norm += with_norm / squares(x) / rows;
  }
  return total;
}

TEST(Turbo, TheLossIsTheoryS) {
  FloatEnvironment environment;
  std::ifstream in(golden_path("theory.txt"));
  uint32_t dim = 0, bits = 0;
  double want = 0, unrounded = 0;
  int lines = 0;
  while (in >> dim >> bits >> want >> unrounded) {
    ++lines;
    const int rows = static_cast<int>(200'000 / dim);
    // Rows of a normal distribution have exactly the density that the codebook is for.
    const Loss normal = loss(dim, bits, rows, false);
    EXPECT_NEAR(normal.with_norm / want, 1, 0.04) << dim << " " << bits;
    EXPECT_LT(normal.stored, normal.with_norm) << dim << " " << bits;
    EXPECT_GT(normal.stored, want * (0.96 - 3.0 / dim)) << dim << " " << bits;
    EXPECT_LT(loss(dim, bits, rows / 4, true).stored, 1.1 * want) << dim << " " << bits;
    // sqrt(3) pi / 2, the limit of many bits, which the densities reach from below.
    EXPECT_LE(unrounded, 2.7207 * std::pow(4.0, -static_cast<double>(bits)));
    EXPECT_GE(want, std::pow(4.0, -static_cast<double>(bits)));  // what no code beats
  }
  EXPECT_EQ(lines, 30);
}

// Rows of several groups whose sizes differ by far: each group loses what its own codebook loses,
// and the bf16 factor adds next to nothing.
TEST(Turbo, GroupsLoseWhatTheirCodebookLoses) {
  FloatEnvironment environment;
  // By theory (docs/formats/kv.md) for 64 values, and what is measured for a short group's 32.
  const double of64[] = {0.1145, 0.03339, 0.009134, 0.002400, 0.000617, 0.0000410};
  for (uint32_t dim : {64u, 80u, 96u, 128u, 320u}) {
    for (size_t b = 0; b < std::size(kBits); ++b) {
      const RowCode code{CodeKind::turbo, kBits[b], kTurboGroup};
      std::mt19937 random(dim + kBits[b]);
      double loss = 0, exact = 0, groups = 0;
      for (int r = 0; r < 600; ++r) {
        std::vector<float> x = random_row(random, dim), out(dim);
        for (size_t i = 0; i < dim; ++i) x[i] *= i / 64 % 2 == 0 ? 1.0f : 0x1p-9f;
        std::vector<std::byte> row(code.row_bytes(dim), std::byte{0xaa});
        turbo_encode_groups(kBits[b], x, row.data());
        turbo_decode_groups(kBits[b], row.data(), out);
        for (size_t first = 0; first + 64 <= dim; first += 64, ++groups) {
          double error = 0, size = 0, yc = 0, cc = 0;
          const auto book = turbo_codebook(64, kBits[b]);
          for (size_t i = first; i < first + 64; ++i) {
            const double c = turbo_value(book, get_code(row.data(), i, kBits[b]));
            error += std::pow(double{out[i]} - x[i], 2), size += double{x[i]} * x[i];
            yc += x[i] * c, cc += c * c;
          }
          loss += error / size;
          exact += (size - yc * yc / cc) / size;  // with the best factor, not rounded
        }
      }
      EXPECT_LT(loss / groups, of64[b] * 1.05) << dim << " " << kBits[b];
      EXPECT_GT(loss / groups, of64[b] * 0.9) << dim << " " << kBits[b];
      // A bf16 is off by 2^-8 / sqrt(3) at most, in root mean square, where its mantissa is 1.
      EXPECT_LT(loss - exact, groups * 0x1p-16 / 3) << dim << " " << kBits[b];
      EXPECT_GE(loss, exact * 0.9999);
    }
  }
}

TEST(Turbo, GroupedRowsOfZerosAndSmallValues) {
  FloatEnvironment environment;
  for (uint32_t dim : {64u, 72u, 80u}) {
    for (uint32_t bits : kBits) {
      const RowCode code{CodeKind::turbo, bits, kTurboGroup};
      EXPECT_EQ(code.row_bytes(dim), dim * bits / 8 + (dim > 64 ? 4u : 2u));
      std::vector<std::byte> row(code.row_bytes(dim), std::byte{0xaa});
      std::vector<float> x(dim), out(dim, 7.0f);
      x[dim - 1] = 0x1p-101f;
      turbo_encode_groups(bits, x, row.data());
      for (const std::byte b : row) ASSERT_EQ(b, std::byte{0});
      turbo_decode_groups(bits, row.data(), out);
      for (const float value : out) ASSERT_EQ(std::bit_cast<uint32_t>(value), 0u);
      for (const float size : {0x1p105f, 0x1p-50f}) {  // no square may overflow or vanish
        for (size_t i = 0; i < dim; ++i) x[i] = i % 3 == 0 ? -size : size;
        turbo_encode_groups(bits, x, row.data());
        turbo_decode_groups(bits, row.data(), out);
        for (size_t i = 0; i < dim; ++i)
          ASSERT_NEAR(out[i] / x[i], 1.0, bits == 2 ? 0.7 : 0.5) << dim << " " << bits;
      }
    }
  }
}

TEST(Turbo, SizesBetweenTheCodebooksLoseLittleMore) {
  FloatEnvironment environment;
  for (uint32_t dim : {80u, 96u, 112u, 192u, 576u}) {
    EXPECT_NEAR(loss(dim, 4, 400, false).with_norm / 0.0093, 1, 0.05) << dim;
    EXPECT_LT(loss(dim, 4, 400, true).stored / 0.0093, 1.3) << dim;
  }
}

TEST(Turbo, ZeroRowsAndWhatIsNotFinite) {
  FloatEnvironment environment;
  const float inf = std::numeric_limits<float>::infinity();
  for (uint32_t dim : {64u, 80u}) {
    const Rotation rotation = *Rotation::make(dim);
    const std::vector<float> zeros(dim), tiny(dim, -1e-18f);
    for (uint32_t bits : kBits) {
      const auto zero_row = encode(rotation, bits, zeros);
      for (const std::byte b : zero_row) ASSERT_EQ(b, std::byte{0});
      EXPECT_EQ(encode(rotation, bits, tiny), zero_row);  // below 2^-56
      std::vector<float> out(dim, 7.0f);
      turbo_decode_rotated(bits, zero_row.data(), out);
      for (const float value : out) ASSERT_EQ(std::bit_cast<uint32_t>(value), 0u);
      turbo_decode_row(rotation, bits, zero_row.data(), out);
      for (const float value : out) ASSERT_EQ(value, 0.0f);
      for (const float bad : {inf, -inf, std::nanf(""), 0x1p100f, -3.4e38f}) {
        std::vector<float> x(dim, 1.0f);
        x[dim - 1] = bad;
        EXPECT_EQ(encode(rotation, bits, x, false), zero_row);
      }
      const std::vector<float> huge(dim, 0x1.fep99f), small(dim, 0x1p-56f);
      for (const auto& x : {huge, small}) {
        turbo_decode_row(rotation, bits, encode(rotation, bits, x).data(), out);
        double error = 0;
        for (size_t i = 0; i < dim; ++i) {
          ASSERT_TRUE(std::isfinite(out[i]));
          error += std::pow((double{out[i]} - x[i]) / x[i], 2);
        }
        EXPECT_LT(error / dim, 0.5);
      }
    }
  }
}

TEST(Turbo, OnlyTheFactorScalesWithTheRow) {
  FloatEnvironment environment;
  std::mt19937 random(9);
  const Rotation rotation = *Rotation::make(128);
  std::vector<float> x = random_row(random, 128), doubled(128);
  for (size_t i = 0; i < x.size(); ++i) doubled[i] = 0x1p20f * x[i];
  auto a = encode(rotation, 3, x), b = encode(rotation, 3, doubled);
  a.resize(48);
  b.resize(48);
  EXPECT_EQ(a, b);
}

}  // namespace
}  // namespace gyre::kernels
