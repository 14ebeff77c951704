// Rows against the gguf package (bit for bit) and llama.cpp's quantiser (error); goldens and what
// they hold: tests/oracle/make_quant_goldens.py. Error ceilings: docs/formats/quant.md.
#include "quant/rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "quant/codes.h"

namespace gyre::quant {
namespace {

using Floats = std::vector<float>;

std::string golden(const std::string& file) {
  std::ifstream in(GYRE_SOURCE_DIR "/tests/golden/quant/" + file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

Floats floats(std::string_view bytes) {
  Floats out(bytes.size() / 4);
  std::memcpy(out.data(), bytes.data(), out.size() * 4);
  return out;
}

std::string encoded(DType dtype, const Floats& x) {
  std::string bytes(row_bytes(dtype, x.size()), '\xee');
  encode_row(dtype, x.data(), reinterpret_cast<std::byte*>(bytes.data()), x.size());
  return bytes;
}

Floats decoded(DType dtype, std::string_view bytes, size_t n) {
  Floats out(n, -77.0f);
  decode_row(dtype, reinterpret_cast<const std::byte*>(bytes.data()), out.data(), n);
  return out;
}

Floats round_trip(DType dtype, const Floats& x) {
  return decoded(dtype, encoded(dtype, x), x.size());
}

double rms(const Floats& x, size_t from, size_t to) {
  double sum = 0;
  for (size_t i = from; i < to; ++i) sum += static_cast<double>(x[i]) * x[i];
  return std::sqrt(sum / static_cast<double>(to - from));
}

Floats difference(const Floats& a, const Floats& b) {
  Floats out(a.size());
  for (size_t i = 0; i < a.size(); ++i) out[i] = a[i] - b[i];
  return out;
}

// What each format may lose, for values whose scales are normal f16 numbers.
struct Ceiling {
  DType dtype;
  bool searched;    // no encoder in the gguf package: ours searches
  double worst;     // error / largest magnitude of the block: maximum, or RMS where searched
  double gaussian;  // RMS error / RMS of gaussian values
};
constexpr Ceiling kCeilings[] = {
    {DType::f32, false, 0, 0},
    {DType::f16, false, 1.0 / 2048, 0.00025},
    {DType::bf16, false, 1.0 / 256, 0.0018},
    {DType::q4_0, false, 0.126, 0.090},
    {DType::q4_1, false, 0.068, 0.081},
    {DType::q5_0, false, 0.0635, 0.047},
    {DType::q5_1, false, 0.0335, 0.040},
    {DType::q8_0, false, 0.0045, 0.0056},
    {DType::q2_k, true, 0.434, 0.27},
    {DType::q3_k, true, 0.27, 0.15},
    {DType::q4_k, true, 0.092, 0.072},
    {DType::q5_k, true, 0.057, 0.036},
    {DType::q6_k, true, 0.036, 0.0170},
    {DType::iq4_nl, true, 0.111, 0.075},
    {DType::iq4_xs, true, 0.127, 0.076},
    {DType::mxfp4, false, 0.251, 0.120},
};

class Rows : public ::testing::TestWithParam<Ceiling> {
 protected:
  DType dtype() const { return GetParam().dtype; }
  std::string file(const char* prefix) const {
    return prefix + std::string(name(dtype())) + ".bin";
  }
};
constexpr auto kNameOf = [](const ::testing::TestParamInfo<Ceiling>& param) {
  return std::string(name(param.param.dtype));
};
INSTANTIATE_TEST_SUITE_P(Quant, Rows, ::testing::ValuesIn(kCeilings), kNameOf);

std::vector<Ceiling> of_kind(bool searched) {
  std::vector<Ceiling> out;
  for (const Ceiling& item : kCeilings) {
    if (item.searched == searched) out.push_back(item);
  }
  return out;
}

TEST(RowsTable, NamesEveryFormat) {
  ASSERT_EQ(std::size(kCeilings), std::size(kAllDTypes));
  for (size_t i = 0; i < std::size(kCeilings); ++i) EXPECT_EQ(kCeilings[i].dtype, kAllDTypes[i]);
}

TEST_P(Rows, DecodeAsTheGgufPackage) {
  const std::string text = golden(file("decode_"));
  const DTypeInfo& type = info(dtype());
  const size_t blocks = text.size() / (type.bytes + 4 * type.block);
  ASSERT_GE(blocks * type.block, 1500u);
  ASSERT_EQ(text.size(), blocks * (type.bytes + 4 * type.block));
  const Floats got = decoded(dtype(), text, blocks * type.block);
  const std::string_view expected = std::string_view(text).substr(blocks * type.bytes);
  for (size_t i = 0; i < got.size(); ++i) {
    float value;
    std::memcpy(&value, expected.data() + 4 * i, 4);
    ASSERT_EQ(std::memcmp(&got[i], &value, 4), 0) << i << ": " << got[i] << ", not " << value;
  }
}

class PackageRows : public Rows {};
INSTANTIATE_TEST_SUITE_P(Quant, PackageRows, ::testing::ValuesIn(of_kind(false)), kNameOf);

TEST_P(PackageRows, EncodeAsTheGgufPackage) {
  const std::string input = golden("encode_input.bin");
  const Floats x = floats(input);
  ASSERT_EQ(x.size(), 5120u);
  const std::string expected = dtype() == DType::f32 ? input : golden(file("encode_"));
  const std::string got = encoded(dtype(), x);
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_EQ(got[i], expected[i])
        << "block " << i / info(dtype()).bytes << " byte " << i % info(dtype()).bytes;
}

TEST(SearchedRows, NoWorseThanLlamaCpp) {
  const Floats x = floats(golden("encode_input.bin"));
  std::ifstream lines(GYRE_SOURCE_DIR "/tests/golden/quant/llama_errors.txt");
  const std::string sets[] = {"gaussian", "uniform", "heavy", "offset"};
  std::string type, set;
  double llama;
  int compared = 0;
  while (lines >> type >> set >> llama) {
    const auto* c = std::find_if(std::begin(kCeilings), std::end(kCeilings),
                                 [&](const Ceiling& item) { return name(item.dtype) == type; });
    ASSERT_NE(c, std::end(kCeilings)) << type;
    const size_t from = 1024 * (std::find(std::begin(sets), std::end(sets), set) - sets);
    ASSERT_LT(from, 4096u) << set;
    const Floats y = round_trip(c->dtype, x);
    const double ours = rms(difference(y, x), from, from + 1024) / rms(x, from, from + 1024);
    EXPECT_LE(ours, llama) << type << " " << set;
    EXPECT_GT(ours, llama / 2) << type << " " << set << ": too good to be true";
    ++compared;
  }
  EXPECT_EQ(compared, 28);
}

// Blocks of very different kinds: gaussian, heavy tails, one sign, sparse, and two-valued.
Floats varied(size_t blocks, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Floats x(blocks * 256);
  for (size_t i = 0; i < x.size(); ++i) {
    const float v = normal(random);
    const size_t kind = i / 256 % 6;
    x[i] = kind == 0   ? v
           : kind == 1 ? v * v * v
           : kind == 2 ? std::fabs(v) + 1
           : kind == 3 ? -std::fabs(v)
           : kind == 4 ? (random() % 16 == 0 ? v : 0)
                       : (v < 0 ? -1.0f : 1.0f);
    x[i] = std::ldexp(x[i], static_cast<int>(i / 256 % 7));
  }
  return x;
}

TEST_P(Rows, WorstErrorStaysBelowItsCeiling) {
  const Floats x = varied(126, 5);
  const Floats rest = difference(round_trip(dtype(), x), x);
  const size_t block = info(dtype()).block;
  for (size_t from = 0; from < x.size(); from += block) {
    double largest = 0, worst = 0;
    for (size_t i = from; i < from + block; ++i) {
      largest = std::max<double>(largest, std::fabs(x[i]));
      worst = std::max<double>(worst, std::fabs(rest[i]));
    }
    if (GetParam().searched) worst = rms(rest, from, from + block);
    ASSERT_LE(worst, GetParam().worst * largest + 0x1p-25) << "block " << from / block;
  }
}

TEST_P(Rows, GaussianErrorStaysBelowItsCeiling) {
  std::mt19937 random(9);
  std::normal_distribution<float> normal(0, 0.5f);
  Floats x(8192);
  for (float& v : x) v = normal(random);
  const double error =
      rms(difference(round_trip(dtype(), x), x), 0, x.size()) / rms(x, 0, x.size());
  EXPECT_LE(error, GetParam().gaussian);
  EXPECT_GE(error, GetParam().gaussian * 0.8);  // the table stays honest
}

TEST_P(Rows, ZerosStayZeros) {
  for (float v : round_trip(dtype(), Floats(512, 0.0f))) ASSERT_EQ(v, 0);
}

// Values that are already the format's come back nearly as they were (exactly, in most formats).
TEST_P(Rows, EncodingTwiceLosesLittleMore) {
  const Floats once = round_trip(dtype(), varied(42, 6));
  const Floats twice = round_trip(dtype(), once);
  const double again = rms(difference(twice, once), 0, once.size()) / rms(once, 0, once.size());
  EXPECT_LE(again, GetParam().gaussian * 0.5);
}

// Under the sanitizers this also proves that nothing overflows on the way.
TEST_P(Rows, AnyFiniteInputIsEncodedWithoutHarm) {
  const float extremes[] = {FLT_MAX, -FLT_MAX, FLT_MIN, FLT_TRUE_MIN, -FLT_TRUE_MIN, 0.0f,
                            -0.0f,   65504,    65520,   1e-8f,        -1e-30f,       3e38f};
  std::mt19937 random(13);
  for (int round = 0; round < 50; ++round) {
    Floats x(256);
    for (float& v : x) v = round < 12 ? extremes[round] : extremes[random() % 12];
    const Floats y = round_trip(dtype(), x);
    if (!GetParam().searched) continue;  // the package's f16 scales overflow
    for (float v : y) ASSERT_TRUE(std::isfinite(v)) << round;
  }
}

}  // namespace
}  // namespace gyre::quant
