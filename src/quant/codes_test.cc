// Any bytes must decode within the promised ranges, packing must undo unpacking, and the audit must
// find every scale that could make a weight non-finite. Values are tested in rows_test.cc.
#include "quant/codes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "quant/format.h"
#include "quant/rows.h"

namespace gyre::quant {
namespace {

using ::testing::HasSubstr;
using Bytes = std::vector<uint8_t>;

const std::byte* as_bytes(const uint8_t* p) {
  return reinterpret_cast<const std::byte*>(p);
}

bool plain(DType dtype) {
  return traits(dtype).family == Family::plain;
}

Bytes random_bytes(size_t size, uint32_t seed) {
  std::mt19937 random(seed);
  Bytes bytes(size);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

// Random codes and sub scales under scales that any audit accepts.
Bytes sound_block(DType dtype, uint32_t seed) {
  Bytes block = random_bytes(info(dtype).bytes, seed);
  for (int at : format(dtype).scale_at) {
    if (at >= 0) block[at + 1] &= 0xbf;  // below 2
  }
  if (dtype == DType::mxfp4) block[0] &= 0x7f;
  return block;
}

class EachFormat : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Quant, EachFormat, ::testing::ValuesIn(kAllDTypes),
                         [](const auto& param) { return std::string(name(param.param)); });

TEST_P(EachFormat, TraitsFitTheBlock) {
  const Traits& t = traits(GetParam());
  EXPECT_EQ(t.block, info(GetParam()).block);
  EXPECT_EQ(t.block % t.group, 0u);
  EXPECT_LE(t.block / t.group, kMaxGroups);
  EXPECT_LE(t.code_max, 255u);
}

class EachQuantised : public EachFormat {};
INSTANTIATE_TEST_SUITE_P(Quant, EachQuantised,
                         ::testing::ValuesIn(std::begin(kAllDTypes) + 3, std::end(kAllDTypes)),
                         [](const auto& param) { return std::string(name(param.param)); });

TEST_P(EachQuantised, AnyBytesGiveCodesInRange) {
  const DType dtype = GetParam();
  const Traits& t = traits(dtype);
  const uint32_t size = info(dtype).bytes;
  const Bytes bytes = random_bytes(size * 3000, 11);
  uint32_t largest = 0;
  int sub_low = 0, sub_high = 0;
  Codes codes;
  for (size_t at = 0; at < bytes.size(); at += size) {
    decode_codes(dtype, as_bytes(&bytes[at]), codes);
    largest = std::max<uint32_t>(largest, *std::max_element(codes.code, codes.code + t.block));
    for (int16_t sub : codes.sub_scale) {
      sub_low = std::min<int>(sub_low, sub);
      sub_high = std::max<int>(sub_high, sub);
    }
    for (int16_t sub : codes.sub_min) {
      ASSERT_TRUE(sub >= 0 && sub <= (t.family == Family::super && t.has_min ? 63 : 0));
    }
  }
  EXPECT_EQ(largest, t.code_max);
  const std::pair<int, int> expected = dtype == DType::q6_k         ? std::pair(-128, 127)
                                       : dtype == DType::q2_k       ? std::pair(0, 15)
                                       : t.family == Family::scaled ? std::pair(0, 0)
                                       : t.has_min                  ? std::pair(0, 63)
                                                                    : std::pair(-32, 31);
  EXPECT_EQ(std::pair(sub_low, sub_high), expected);
}

TEST_P(EachQuantised, FieldsThatAFormatLacksAreZero) {
  const DType dtype = GetParam();
  const Traits& t = traits(dtype);
  Codes codes;
  std::memset(&codes, 0x5a, sizeof codes);
  decode_codes(dtype, as_bytes(sound_block(dtype, 3).data()), codes);
  if (t.family == Family::scaled) {
    EXPECT_EQ(codes.d, 0);
    EXPECT_EQ(codes.dmin, 0);
  } else {
    EXPECT_EQ(codes.scale, 0);
    EXPECT_EQ(codes.min, 0);
  }
  if (!t.has_min) {
    EXPECT_EQ(codes.min, 0);
    EXPECT_EQ(codes.dmin, 0);
  }
  const uint32_t groups = t.family == Family::super ? t.block / t.group : 0;
  for (uint32_t g = groups; g < kMaxGroups; ++g)
    EXPECT_EQ(codes.sub_scale[g] | codes.sub_min[g], 0);
  for (uint32_t k = t.block; k < kMaxBlock; ++k) EXPECT_EQ(codes.code[k], 0x5a);
}

TEST_P(EachQuantised, PackingUndoesUnpacking) {
  const DType dtype = GetParam();
  const Format& f = format(dtype);
  for (uint32_t seed = 0; seed < 300; ++seed) {
    Bytes block = sound_block(dtype, seed);
    if (dtype == DType::mxfp4) {
      block[0] = static_cast<uint8_t>(seed);
      for (size_t i = 1; i < block.size(); ++i) {  // -0 is 0
        if ((block[i] & 15) == 8) block[i] &= 0xf0;
        if ((block[i] >> 4) == 8) block[i] &= 0x0f;
      }
    }
    Codes codes{};
    f.unpack(block.data(), codes);
    Bytes again(block.size(), 0xee);
    f.pack(codes, again.data());
    ASSERT_EQ(again, block) << seed;
  }
}

// ---- the audit ----

struct Tensor {
  DType dtype;
  uint32_t rows = 3, blocks = 5;
  Bytes bytes;

  explicit Tensor(DType type) : dtype(type) {
    for (uint32_t i = 0; i < rows * blocks; ++i) {
      Bytes block = sound_block(dtype, i);
      if (plain(dtype)) block.back() &= 0x3f;  // a small exponent
      bytes.insert(bytes.end(), block.begin(), block.end());
    }
  }
  uint8_t* block(uint32_t row, uint32_t column) {
    return &bytes[(row * blocks + column) * info(dtype).bytes];
  }
  Status check() const {
    TensorView view{dtype, rows, blocks * info(dtype).block, as_bytes(bytes.data())};
    return check_block_scales(view, "blk.0.w");
  }
  bool decodes_finite() const {
    std::vector<float> values(rows * blocks * info(dtype).block);
    decode_row(dtype, as_bytes(bytes.data()), values.data(), values.size());
    return std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); });
  }
};

void expect_refused(Tensor& tensor, const char* place) {
  const Status status = tensor.check();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::bad_file);
  EXPECT_THAT(status.error().text, HasSubstr(place));
}

TEST_P(EachFormat, AuditAcceptsFiniteScales) {
  Tensor tensor(GetParam());
  EXPECT_TRUE(tensor.check().ok());
  EXPECT_TRUE(tensor.decodes_finite());
}

TEST_P(EachQuantised, AuditNamesTheBlockOfEveryBadScale) {
  const DType dtype = GetParam();
  for (int at : format(dtype).scale_at) {
    if (at < 0) continue;
    for (uint16_t bad : {0x7c00, 0xfc00, 0x7e00, 0x7c01, 0xffff}) {
      Tensor tensor(dtype);
      store_u16(bad, tensor.block(1, 4) + at);
      expect_refused(tensor, "blk.0.w row 1 block 4 scale");
    }
    Tensor largest(dtype);
    store_u16(0x7bff, largest.block(2, 0) + at);
    EXPECT_TRUE(largest.check().ok());
    EXPECT_TRUE(largest.decodes_finite());
  }
}

TEST(Audit, Mxfp4RefusesExponentsWhoseWeightsOverflow) {
  for (int e = 0; e < 256; ++e) {
    Tensor tensor(DType::mxfp4);
    tensor.block(0, 2)[0] = static_cast<uint8_t>(e);
    tensor.block(0, 2)[1] = 0x77;  // the largest value
    EXPECT_EQ(tensor.check().ok(), tensor.decodes_finite()) << e;
    if (e == 255) expect_refused(tensor, "blk.0.w row 0 block 2 scale exponent: 255");
  }
}

TEST(Audit, PlainValuesMustBeFinite) {
  for (DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    Tensor tensor(dtype);
    uint8_t* element = tensor.block(2, 3);
    if (dtype == DType::f32) {
      store_u32(0xff800001, element);
    } else {
      store_u16(dtype == DType::f16 ? 0x7c00 : 0xff80, element);
    }
    expect_refused(tensor, "blk.0.w row 2 element 3: ");
  }
}

TEST_P(EachFormat, AuditPassesNothingNonFinite) {
  const DType dtype = GetParam();
  int refused = 0;
  Tensor tensor(dtype);
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    const Bytes block = random_bytes(info(dtype).bytes, seed);
    std::copy(block.begin(), block.end(), tensor.block(1, 1));
    const bool passed = tensor.check().ok();
    refused += !passed;
    ASSERT_TRUE(!passed || tensor.decodes_finite()) << seed;
  }
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace gyre::quant
