// Rules of the documents about schemes that the tables of scheme_test.cc leave open.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "kv/scheme.h"

namespace gyre::kv {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using Override = SchemeRequest::Override;
constexpr LayerType F = LayerType::full, S = LayerType::sliding, L = LayerType::linear;

KvConfigEntry entry(int64_t cache, uint64_t bits) {
  return {cache, *affine_code(bits, 64)};
}

std::vector<LayerShape> layers_of(const std::vector<LayerType>& types) {
  const LayerShape full{F, 4, 256, 256, 0, -1, 0}, sliding{S, 4, 256, 256, 512, -1, 0};
  return make_layers(types.size(), types, full, sliding);
}

// The start is looked at first, whatever else would win.
TEST(SchemeDocuments, ABadStartIsRefusedBeforeTurboWins) {
  for (const double start : {-1.0, 1.5, std::nan(""), 0x1p53}) {
    SchemeRequest asked;
    asked.override = Override::off;
    asked.turbo = {8, 3};
    asked.start = start;
    const auto got = KvScheme::resolve(asked);
    ASSERT_FALSE(got.ok()) << start;
    EXPECT_THAT(got.error().text, HasSubstr("quantizedKvStart"));
  }
}

TEST(SchemeDocuments, AStartOfZeroIsNoStart) {
  const std::vector<KvConfigEntry> one = {entry(0, 4)};
  SchemeRequest asked;
  asked.override = Override::config;
  asked.config = &one;
  const KvScheme without = *KvScheme::resolve(asked);
  asked.start = 0.0;
  EXPECT_EQ(*KvScheme::resolve(asked), without);
  EXPECT_EQ(without.cache_key(), "config");
  asked.override = Override::bits;
  asked.bits = 8;
  EXPECT_EQ(KvScheme::resolve(asked)->cache_key(), "kv8");
  asked.turbo = {8, 3};
  EXPECT_EQ(KvScheme::resolve(asked)->cache_key(), "turbo-k8v3");
}

TEST(SchemeDocuments, AMissingConfigMayMeanBf16AndThenDropsTheStart) {
  SchemeRequest asked;
  asked.override = Override::config;
  asked.missing_config_is_error = false;
  asked.start = 700.0;
  EXPECT_EQ(*KvScheme::resolve(asked), KvScheme());
  EXPECT_EQ(KvScheme::resolve(asked)->start(), 0u);
}

TEST(SchemeDocuments, AConfigThatNamesARecurrentLayerGivesItNoCode) {
  const auto scheme = KvScheme::affine_config({entry(0, 4), entry(1, 8)});
  const auto got = scheme->describe(layers_of({F, L, S}));
  EXPECT_THAT(got.layers, ElementsAre(Pair("kv4", 1), Pair("bf16", 1)));
  EXPECT_EQ(got.recurrent_layers, 1u);
  EXPECT_FALSE(scheme->batchable(layers_of({F, L, S}), [](size_t) { return true; }));
  EXPECT_FALSE(scheme->check(layers_of({F, L, S})).ok());
}

// The refusal of one cache is enough, and a start says no before anything is asked.
TEST(SchemeDocuments, TheProbeIsAskedLast) {
  size_t asked = 0;
  const auto never = [&](size_t) {
    ++asked;
    return true;
  };
  EXPECT_FALSE(KvScheme::affine_uniform(4, 64, 1)->batchable(layers_of({F, F}), never));
  EXPECT_FALSE(KvScheme::affine_config({entry(9, 4)})->batchable(layers_of({F, F}), never));
  EXPECT_EQ(asked, 0u);
  const auto layers = layers_of({F, F, F});
  EXPECT_FALSE(KvScheme::affine_uniform(4)->batchable(layers, [&](size_t cache) {
    ++asked;
    return cache != 1;
  }));
  EXPECT_EQ(asked, 2u);
}

// One layer of 4 kv heads of 256: the ratios to bf16 that the documents' formulas give.
TEST(SchemeDocuments, BytesOfATokenAgainstBf16) {
  const auto one = layers_of({F});
  EXPECT_EQ(KvScheme().bytes_at(one, 32) * 17, KvScheme::affine_uniform(8)->bytes_at(one, 32) * 32);
  EXPECT_EQ(KvScheme().bytes_at(one, 32) * 9, KvScheme::affine_uniform(4)->bytes_at(one, 32) * 32);
}

}  // namespace
}  // namespace gyre::kv
