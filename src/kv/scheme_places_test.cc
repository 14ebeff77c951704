// What a scheme makes of a model's places.
#include "kv/scheme_places.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gyre::kv {
namespace {

using testing::HasSubstr;

// A full layer, two with a window, one that reads layer 0.
std::vector<LayerSpec> places() {
  const KvLayout layout{2, 128, 64, kBf16Code};
  return {{Place::full, 0, layout, -1},
          {Place::sliding, 100, layout, -1},
          {Place::sliding, 100, {1, 64, 64, kBf16Code}, -1},
          {Place::full, 0, layout, 0}};
}

TEST(SchemePlaces, ShapesAreThePlaces) {
  const auto shapes = layer_shapes(places());
  ASSERT_EQ(shapes.size(), 4u);
  EXPECT_EQ(shapes[0].type, LayerType::full);
  EXPECT_EQ(shapes[0].k_dim, 128u);
  EXPECT_EQ(shapes[0].v_dim, 64u);
  EXPECT_EQ(shapes[1].type, LayerType::sliding);
  EXPECT_EQ(shapes[1].window, 100u);
  EXPECT_EQ(shapes[2].kv_heads, 1u);
  EXPECT_EQ(shapes[3].donor, 0);
}

TEST(SchemePlaces, RecurrentLayersHaveNoCode) {
  auto mixed = places();
  mixed[1] = {};
  mixed[1].place = Place::recurrent;
  mixed[1].recurrent = {3, 8, 2, 4, 4, 10};
  const auto shapes = layer_shapes(mixed);
  EXPECT_EQ(shapes[1].type, LayerType::linear);
  EXPECT_EQ(shapes[1].state_bytes, 2 * 64u + 2 * 4 * 4 * 4);  // 96 bytes of taps, padded
  const auto coded = apply_scheme(*KvScheme::parse("kv8-g32", nullptr), mixed);
  ASSERT_TRUE(coded.ok()) << coded.error().text;
  EXPECT_EQ((*coded)[1].layout.code, kBf16Code);
  const std::vector<KvConfigEntry> entries = {{1, *parse_layer_code("kv8")}};
  EXPECT_THAT(apply_scheme(*KvScheme::parse("config", &entries), mixed).error().text,
              HasSubstr("entry 0: layer_idx: 1, expected an attention layer"));
}

TEST(SchemePlaces, CodesReachTheirLayersAndTheReadersOfDonors) {
  const auto coded = apply_scheme(*KvScheme::parse("anchor-k4v4", nullptr), places());
  ASSERT_TRUE(coded.ok()) << coded.error().text;
  const LayerCode anchor = *parse_layer_code("anchor-k4v4");
  EXPECT_EQ((*coded)[0].layout.code, anchor);
  EXPECT_EQ((*coded)[1].layout.code, kBf16Code);
  EXPECT_EQ((*coded)[3].layout.code, anchor);  // as layer 0, which it reads
  EXPECT_EQ((*coded)[1].window, 100u);

  const std::vector<KvConfigEntry> entries = {{1, *parse_layer_code("turbo-k8v4")},
                                              {2, *parse_layer_code("kv4-g32")}};
  const auto mixed = apply_scheme(*KvScheme::parse("config", &entries), places());
  ASSERT_TRUE(mixed.ok()) << mixed.error().text;
  EXPECT_EQ((*mixed)[0].layout.code, kBf16Code);
  EXPECT_EQ((*mixed)[1].layout.code, entries[0].code);
  EXPECT_EQ((*mixed)[2].layout.code, entries[1].code);
}

TEST(SchemePlaces, RefusalsNameLayerAndEntry) {
  auto small = places();
  small[2].layout.k_dim = 48;
  EXPECT_THAT(apply_scheme(*KvScheme::parse("kv4", nullptr), small).error().text,
              HasSubstr("kv4: layer 2: K: group: 64, expected a divisor of the head size 48"));
  const std::vector<KvConfigEntry> beyond = {{3, *parse_layer_code("kv8")}};  // a reader, no cache
  EXPECT_THAT(apply_scheme(*KvScheme::parse("config", &beyond), places()).error().text,
              HasSubstr("entry 0: layer_idx: 3, expected one of the model's 3 caches"));
  auto oracle = places();
  for (LayerSpec& place : oracle) place.layout.code = kernels::kF32Code;
  EXPECT_TRUE(apply_scheme(KvScheme(), oracle).ok());
  EXPECT_EQ((*apply_scheme(KvScheme(), oracle))[0].layout.code, kernels::kF32Code);
  EXPECT_EQ(apply_scheme(*KvScheme::parse("kv8", nullptr), oracle).error().text,
            "kv scheme: kv8, expected bf16 where the model's own KV is f32");
}

TEST(SchemePlaces, StartsBeyondEveryPositionStayBeyond) {
  EXPECT_EQ(code_start(*KvScheme::parse("kv8-start5000", nullptr)), 5000u);
  EXPECT_EQ(code_start(*KvScheme::parse("kv8-start9007199254740991", nullptr)), UINT32_MAX);
  EXPECT_EQ(code_start(KvScheme()), 0u);
}

}  // namespace
}  // namespace gyre::kv
