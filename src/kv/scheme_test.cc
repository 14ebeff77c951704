// Schemes against the tables that they were specified by: keys, resolution, description, batching,
// bytes. Byte counts are written out, not computed by the code under test.
#include "kv/scheme.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

namespace gyre::kv {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using Override = SchemeRequest::Override;
using Types = std::vector<LayerType>;
constexpr LayerType F = LayerType::full, S = LayerType::sliding, L = LayerType::linear;

KvScheme uniform(uint64_t bits, uint64_t group = 64, uint64_t start = 0) {
  return *KvScheme::affine_uniform(bits, group, start);
}
// An entry with bits and a group; one with a code's name.
KvConfigEntry e(int64_t layer, uint64_t bits, uint64_t group) {
  return {layer, *affine_code(bits, group)};
}
KvConfigEntry e(int64_t layer, const char* code) {
  return {layer, *parse_layer_code(code)};
}
KvScheme config(std::vector<KvConfigEntry> entries, uint64_t start = 0) {
  return *KvScheme::affine_config(std::move(entries), start);
}
KvScheme turbo(uint64_t k, uint64_t v, uint64_t start = 0) {
  return *KvScheme::turbo(k, v, start);
}
KvScheme anchored(uint64_t k, uint64_t v, uint64_t start = 0) {
  return *KvScheme::anchored(k, v, start);
}
// 4 kv heads of 256, windows of 512.
std::vector<LayerShape> layers_of(const Types& types, size_t count = 0, int shared = 0) {
  const LayerShape full{F, 4, 256, 256, 0, -1, 0}, sliding{S, 4, 256, 256, 512, -1, 0};
  auto out = make_layers(count == 0 ? types.size() : count, types, full, sliding);
  for (size_t i = out.size() - static_cast<size_t>(shared); i < out.size(); ++i) out[i].donor = 0;
  for (LayerShape& layer : out) layer.state_bytes = layer.type == L ? 1000 : 0;
  return out;
}

const std::vector<KvConfigEntry> kTwo = {e(0, 4, 64), e(2, 8, 32)};

struct KeyRow {
  const char* key;
  KvScheme scheme;
};
std::vector<KeyRow> key_table() {
  return {{"bf16", KvScheme()},
          {"kv8", uniform(8)},
          {"kv4-start5000", uniform(4, 64, 5000)},
          {"kv4", uniform(4)},
          {"kv4-g32", uniform(4, 32)},
          {"kv4-g32-start128", uniform(4, 32, 128)},
          {"kv4-start1", uniform(4, 64, 1)},
          {"config", config(kTwo)},
          {"config-start512", config(kTwo, 512)},
          {"turbo-k8v3", turbo(8, 3)},
          {"turbo-k8v3-start2048", turbo(8, 3, 2048)},
          {"anchor-k4v4", anchored(4, 4)},
          {"anchor-k5v4-start256", anchored(5, 4, 256)},
          {"kv2-g128-start9007199254740991", uniform(2, 128, 9007199254740991u)}};
}

TEST(KvScheme, CacheKeysOfTheTable) {
  for (const KeyRow& row : key_table()) EXPECT_EQ(row.scheme.cache_key(), row.key);
}

TEST(KvScheme, EveryKeyParsesBackToItsScheme) {
  for (const KeyRow& row : key_table()) {
    const auto parsed = KvScheme::parse(row.key, &kTwo);
    ASSERT_TRUE(parsed.ok()) << parsed.error().text;
    EXPECT_EQ(*parsed, row.scheme) << row.key;
  }
  std::set<std::string> keys;
  size_t count = 0;
  for (uint64_t start : {0u, 1u, 64u, 5000u}) {
    for (uint64_t bits : {2u, 3u, 4u, 5u, 6u, 8u}) {
      std::vector<KvScheme> schemes;
      for (uint64_t group : {32u, 64u, 128u}) schemes.push_back(uniform(bits, group, start));
      for (uint64_t v : {2u, 3u, 4u, 5u, 6u, 8u}) {
        schemes.push_back(turbo(bits, v, start));
        schemes.push_back(anchored(bits, v, start));
      }
      for (const KvScheme& scheme : schemes) {
        const auto parsed = KvScheme::parse(scheme.cache_key(), nullptr);
        ASSERT_TRUE(parsed.ok()) << scheme.cache_key();
        EXPECT_EQ(*parsed, scheme);
        EXPECT_EQ(parsed->cache_key(), scheme.cache_key());
        keys.insert(scheme.cache_key());
        ++count;
      }
    }
  }
  EXPECT_EQ(keys.size(), count);
}

TEST(KvScheme, OtherKeysAreRefusedByName) {
  for (const char* key : {"",
                          "kv",
                          "kv8 ",
                          "KV8",
                          "kv08",
                          "kv8-g",
                          "kv8-start",
                          "kv8-start-1",
                          "kv8-startx",
                          "kv8g32",
                          "bf16-start1",
                          "configs",
                          "turbo",
                          "turbo-k8",
                          "turbo-kv4",
                          "turbo-k8v",
                          "turbo-k8v3-g",
                          "kv8-start01",
                          "anchor-k4",
                          "anchor-4v4",
                          "anchor-k4v4-g64",
                          "kv8-g64-",
                          "f16",
                          "kv8-g032",
                          "turbo-k8v3x",
                          "kv4-start1-g32"}) {
    const auto parsed = KvScheme::parse(key, &kTwo);
    ASSERT_FALSE(parsed.ok()) << key;
    EXPECT_EQ(parsed.error().code, ErrorCode::usage) << key;
    EXPECT_THAT(parsed.error().text, HasSubstr(key));
  }
  for (const auto& [key, shortest] :
       std::vector<std::pair<const char*, const char*>>{{"kv8-g64", "kv8"},
                                                        {"kv8-start0", "kv8"},
                                                        {"turbo-k4v4-start0", "turbo-k4v4"},
                                                        {"anchor-k4v4-start0", "anchor-k4v4"}}) {
    const auto parsed = KvScheme::parse(key, &kTwo);
    ASSERT_FALSE(parsed.ok()) << key;
    EXPECT_THAT(parsed.error().text, HasSubstr(std::string("shortest form, ") + shortest));
  }
}

TEST(KvScheme, BitsGroupsAndStartsAreBounded) {
  for (const char* key : {"kv1", "kv7", "kv9", "kv16", "turbo-k7v4", "turbo-k4v1", "turbo-k16v4",
                          "anchor-k7v4", "anchor-k4v9"}) {
    const auto parsed = KvScheme::parse(key, nullptr);
    ASSERT_FALSE(parsed.ok()) << key;
    EXPECT_THAT(parsed.error().text, HasSubstr("expected 2, 3, 4, 5, 6 or 8")) << key;
  }
  for (const char* key : {"kv4-g16", "kv4-g0", "kv4-g256", "kv4-g4294967360"})
    EXPECT_THAT(KvScheme::parse(key, nullptr).error().text, HasSubstr("32, 64 or 128")) << key;
  EXPECT_THAT(KvScheme::parse("kv4-start9007199254740992", nullptr).error().text,
              HasSubstr("quantizedKvStart"));
  EXPECT_FALSE(KvScheme::parse("kv4-start18446744073709551617", nullptr).ok());
  const RowCode seven{CodeKind::affine, 7, 64}, odd{CodeKind::affine, 4, 48},
      four{CodeKind::affine, 4, 64};
  for (const LayerCode& code :
       {LayerCode{seven, seven, false, false}, LayerCode{odd, odd, false, false},
        LayerCode{four, {}, false, false}, LayerCode{{}, {}, true, false}})
    EXPECT_FALSE(KvScheme::affine_config({{0, code}}).ok()) << layer_code_name(code);
}

TEST(KvScheme, CodesOfLayersHaveNames) {
  for (const char* name : {"bf16", "kv8", "kv4-g32", "kv3-g128", "turbo-k8v4", "anchor-k4v4"}) {
    const auto code = parse_layer_code(name);
    ASSERT_TRUE(code.ok()) << name;
    EXPECT_EQ(layer_code_name(*code), name);
  }
  const LayerCode anchor = *parse_layer_code("anchor-k5v3");
  EXPECT_EQ(anchor.k, (RowCode{CodeKind::turbo, 5, 64}));
  EXPECT_EQ(anchor.v, (RowCode{CodeKind::turbo, 3, 64}));
  EXPECT_TRUE(anchor.anchored);
  EXPECT_FALSE(anchor.rotated);  // of its page 0 only
  EXPECT_FALSE(parse_layer_code("turbo-k8v4")->anchored);
  for (const char* name :
       {"", "kv4-g64", "kv7", "kv4-start1", "config", "turbo-k8", "anchor-k4v4x"})
    EXPECT_FALSE(parse_layer_code(name).ok()) << name;
}

SchemeRequest request(Override override, uint64_t bits = 0) {
  SchemeRequest out;
  out.override = override;
  out.bits = bits;
  return out;
}

TEST(KvSchemeResolve, ABadStartIsRefusedEvenWhereItWouldNotCount) {
  for (double start : {-1.0, 1.5, std::nan(""), std::numeric_limits<double>::infinity(), 0x1p53}) {
    for (Override override : {Override::absent, Override::off, Override::config, Override::bits}) {
      SchemeRequest asked = request(override, 4);
      asked.config = &kTwo;
      asked.start = start;
      const auto got = KvScheme::resolve(asked);
      ASSERT_FALSE(got.ok()) << start;
      EXPECT_EQ(got.error().code, ErrorCode::usage);
      EXPECT_THAT(got.error().text, HasSubstr("quantizedKvStart"));
      EXPECT_THAT(got.error().text, HasSubstr("a nonnegative integer"));
    }
  }
  SchemeRequest asked = request(Override::bits, 4);
  asked.start = 0x1p53 - 1;
  EXPECT_EQ(KvScheme::resolve(asked)->start(), 9007199254740991u);
}

TEST(KvSchemeResolve, TurboBeatsEveryOverride) {
  for (Override override : {Override::absent, Override::off, Override::config, Override::bits}) {
    SchemeRequest asked = request(override, 4);
    asked.turbo = {8, 3};
    EXPECT_EQ(KvScheme::resolve(asked)->cache_key(), "turbo-k8v3");
    asked.start = 2048;
    EXPECT_EQ(KvScheme::resolve(asked)->cache_key(), "turbo-k8v3-start2048");
  }
}

TEST(KvSchemeResolve, AbsentAndOffAreBf16WithoutOptions) {
  for (Override override : {Override::absent, Override::off}) {
    SchemeRequest asked = request(override, 4);
    asked.config = &kTwo;
    asked.start = 100;
    EXPECT_EQ(*KvScheme::resolve(asked), KvScheme());
  }
}

TEST(KvSchemeResolve, ConfigNeedsAListAndCopiesIt) {
  const std::vector<KvConfigEntry> none;
  for (const std::vector<KvConfigEntry>* missing : {static_cast<decltype(&none)>(nullptr), &none}) {
    SchemeRequest asked = request(Override::config);
    asked.config = missing;
    const auto refused = KvScheme::resolve(asked);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::not_found);
    EXPECT_THAT(refused.error().text, HasSubstr("kv_config.json"));
    asked.missing_config_is_error = false;
    EXPECT_EQ(*KvScheme::resolve(asked), KvScheme());
  }
  std::vector<KvConfigEntry> list = kTwo;
  SchemeRequest asked = request(Override::config);
  asked.config = &list;
  const KvScheme scheme = *KvScheme::resolve(asked);
  list[0].code = *affine_code(8, 64);
  EXPECT_EQ(scheme, config(kTwo));
  EXPECT_EQ(scheme.start(), 0u);
  asked.start = 512;
  EXPECT_EQ(KvScheme::resolve(asked)->cache_key(), "config-start512");
}

TEST(KvSchemeResolve, ANumberIsUniformFromTheStart) {
  EXPECT_EQ(*KvScheme::resolve(request(Override::bits, 4)), uniform(4, 64, 0));
  SchemeRequest asked = request(Override::bits, 8);
  asked.start = 5000;
  EXPECT_EQ(KvScheme::resolve(asked)->cache_key(), "kv8-start5000");
  EXPECT_FALSE(KvScheme::resolve(request(Override::bits, 7)).ok());
}

TEST(KvScheme, PersistentKeysSeparateEverythingThatBitsDependOn) {
  const StateIdentity identity{"abc", "bf16", 1};
  const KvScheme scheme = config(kTwo);
  std::set<std::string> keys;
  auto add = [&](const KvScheme& s, const StateIdentity& i) {
    EXPECT_TRUE(keys.insert(s.persistent_key(i)).second) << s.persistent_key(i);
  };
  add(scheme, identity);
  add(config({e(0, 4, 64), e(2, 8, 64)}), identity);
  add(config({e(0, 4, 64), e(3, 8, 32)}), identity);
  add(config({e(0, 4, 64)}), identity);
  add(config({e(0, "turbo-k4v4")}), identity);
  add(config({e(0, "anchor-k4v4")}), identity);
  add(anchored(4, 4), identity);
  add(turbo(4, 4), identity);
  add(config(kTwo, 1), identity);
  add(uniform(4), identity);
  add(KvScheme(), identity);
  add(scheme, {"abd", "bf16", 1});
  add(scheme, {"abc", "f32", 1});
  add(scheme, {"abc", "bf16", 2});
  add(scheme, {"abc|dtype:4:bf16", "bf16", 1});
  for (const std::string& key : keys) EXPECT_NE(key.find("|model:"), std::string::npos);
  // Order and overridden entries change no bit.
  EXPECT_EQ(config({e(2, 4, 64), e(2, 8, 32), e(0, 4, 64)}).persistent_key(identity),
            scheme.persistent_key(identity));
}

TEST(KvSchemeDescribe, ConfigOfFourLayers) {
  const auto layers = layers_of({S, S, L, F});
  const auto got = config({e(0, 4, 64), e(2, 8, 64), e(3, 8, 64)}).describe(layers);
  EXPECT_EQ(got.mode, "mixed (kv_config.json)");
  EXPECT_THAT(got.layers, ElementsAre(Pair("kv4", 1), Pair("bf16", 1), Pair("kv8", 1)));
  EXPECT_EQ(got.global, 1u);
  EXPECT_EQ(got.sliding_window, 2u);
  EXPECT_EQ(got.recurrent_layers, 1u);
  const auto rotated = turbo(8, 3).describe(layers);
  EXPECT_THAT(rotated.layers, ElementsAre(Pair("bf16", 2), Pair("turbo-k8v3", 1)));
  EXPECT_EQ(rotated.recurrent_layers, 1u);
  EXPECT_EQ(rotated.mode, "turbo-k8v3");
}

TEST(KvSchemeDescribe, AnchoredLeavesWindowsAndAConfigDoesNot) {
  const auto layers = layers_of({S, S, L, F});
  EXPECT_THAT(anchored(4, 4).describe(layers).layers,
              ElementsAre(Pair("bf16", 2), Pair("anchor-k4v4", 1)));
  EXPECT_EQ(anchored(4, 4).describe(layers).mode, "anchor-k4v4");
  const KvScheme mixed = config({e(0, "turbo-k8v4"), e(1, "anchor-k4v4"), e(3, "bf16")});
  EXPECT_THAT(mixed.describe(layers).layers,
              ElementsAre(Pair("turbo-k8v4", 1), Pair("anchor-k4v4", 1), Pair("bf16", 1)));
  EXPECT_EQ(mixed.layer_code(layers, 0), *parse_layer_code("turbo-k8v4"));
  EXPECT_EQ(mixed.layer_code(layers, 1), *parse_layer_code("anchor-k4v4"));
}

TEST(KvSchemeDescribe, DuplicatesBeyondTheEndAndMissingTypes) {
  const auto layers = layers_of({S}, 3);  // the missing two are full
  const auto got = config({e(1, 4, 64), e(1, 8, 64), e(7, 4, 64)}).describe(layers);
  EXPECT_THAT(got.layers, ElementsAre(Pair("bf16", 2), Pair("kv8", 1)));
  EXPECT_EQ(got.global, 2u);
  EXPECT_EQ(got.sliding_window, 1u);
  EXPECT_THAT(uniform(4).describe(layers).layers, ElementsAre(Pair("kv4", 3)));
  EXPECT_EQ(uniform(4).describe(layers).mode, "uniform-kv4");
  EXPECT_THAT(KvScheme().describe(layers).layers, ElementsAre(Pair("bf16", 3)));
  EXPECT_TRUE(uniform(4).describe({}).layers.empty());
}

TEST(KvSchemeDescribe, AWindowOfZeroStillCountsAsSliding) {
  auto layers = layers_of({S, F});
  layers[0].window = 0;
  EXPECT_EQ(KvScheme().describe(layers).sliding_window, 1u);
}

TEST(KvSchemeDescribe, OnlyLayersThatOwnStorageAreCounted) {
  const auto layers = layers_of({S, F, S, F}, 4, 2);
  const auto got = uniform(8).describe(layers);
  EXPECT_THAT(got.layers, ElementsAre(Pair("kv8", 2)));
  EXPECT_EQ(got.global, 1u);
  EXPECT_EQ(got.sliding_window, 1u);
  EXPECT_EQ(got.shared_layers, 2u);
}

TEST(KvSchemeDescribe, AConfigCountsCachesNotLayers) {
  auto layers = layers_of({F, F, S, F});
  layers[0].donor = 1;  // so layer 1 is cache 0
  EXPECT_EQ(config({e(0, 4, 64)}).layer_code(layers, 1).k, (RowCode{CodeKind::affine, 4, 64}));
  EXPECT_EQ(config({e(0, 4, 64)}).layer_code(layers, 0), LayerCode{});
  EXPECT_EQ(config({e(2, 4, 64)}).layer_code(layers, 3).v, (RowCode{CodeKind::affine, 4, 64}));
}

TEST(KvSchemeBytes, FormulasOfOneLayer) {
  const auto one = layers_of({F});
  EXPECT_EQ(KvScheme().bytes_at(one, 1), 4096u);
  EXPECT_EQ(uniform(8).bytes_at(one, 1), 2176u);
  EXPECT_EQ(uniform(4).bytes_at(one, 1), 1152u);
  EXPECT_EQ(uniform(4).bytes_at(one, 1000), 1152000u);
  // 4 heads of (256 * 8 / 8 + 4) + (256 * 3 / 8 + 4) bytes
  EXPECT_EQ(turbo(8, 3).bytes_at(one, 1), 4u * (260 + 100));
  EXPECT_EQ(uniform(3, 32).bytes_at(one, 1), 4u * 2 * (96 + 32));
}

TEST(KvSchemeBytes, AnchoredLayersKeepPage0Wide) {
  const auto one = layers_of({F});
  // 4 heads; a coded row: 256 * 4 / 8 bytes of codes and a bf16 factor for each 64 values.
  const uint64_t coded = 4 * 2 * (128 + 4 * 2);
  EXPECT_EQ(anchored(4, 4).bytes_at(one, 1), 4096u);
  EXPECT_EQ(anchored(4, 4).bytes_at(one, 63), 4096u * 63);
  EXPECT_EQ(anchored(4, 4).bytes_at(one, 64), 4096u * 64 + 2048);  // and the anchor
  EXPECT_EQ(anchored(4, 4).bytes_at(one, 65), 4096u * 64 + 2048 + coded);
  EXPECT_EQ(anchored(4, 4).bytes_at(one, 1064), 4096u * 64 + 2048 + coded * 1000);
  EXPECT_EQ(anchored(4, 4, 100).bytes_at(one, 100), 4096u * 100 + 2048);
  EXPECT_EQ(anchored(4, 4, 100).bytes_at(one, 101), 4096u * 64 + 2048 + coded * 37);
  // In a window, once page 0 has left it: the codes and the anchor.
  const KvScheme in_window = config({e(0, "anchor-k4v4")});
  EXPECT_EQ(in_window.bytes_at(layers_of({S}), 600), coded * 512 + 2048);
  EXPECT_EQ(in_window.bytes_at(layers_of({S}), 540), 4096u * 36 + coded * 476 + 2048);
}

TEST(KvSchemeBytes, WindowsDonorsStatesAndStarts) {
  const auto layers = layers_of({S, F, L, S}, 4, 1);
  EXPECT_EQ(KvScheme().bytes_at(layers, 2000), 4096u * (512 + 2000) + 1000);
  EXPECT_EQ(uniform(8).bytes_at(layers, 100), 2176u * 200 + 1000);
  EXPECT_EQ(turbo(8, 3).bytes_at(layers, 2000), 4096u * 512 + 1440u * 2000 + 1000);
  EXPECT_EQ(config({e(0, 4, 64)}).bytes_at(layers, 2000), 1152u * 512 + 4096u * 2000 + 1000);
  // Up to the start nothing is coded; the first query at or past it reads every key as a code.
  EXPECT_EQ(uniform(8, 64, 128).bytes_at(layers, 128), 4096u * 256 + 1000);
  EXPECT_EQ(uniform(8, 64, 128).bytes_at(layers, 129), 2176u * 258 + 1000);
  EXPECT_EQ(uniform(8).bytes_at(layers, 0), 1000u);
  auto zero_window = layers_of({S});
  zero_window[0].window = 0;
  EXPECT_EQ(KvScheme().bytes_at(zero_window, 2000), 4096u * 2000);
  EXPECT_EQ(KvScheme().bytes_at(layers, UINT64_MAX), UINT64_MAX);
}

// A probe that accepts what `accept` says and records what it was asked.
struct Probe {
  std::set<size_t> refuse;
  std::vector<size_t> asked;
  std::function<bool(size_t)> ask() {
    return [this](size_t cache) {
      asked.push_back(cache);
      return !refuse.contains(cache);
    };
  }
};

TEST(KvSchemeBatchable, Bf16NeedsNoProbeTheOthersDo) {
  const auto layers = layers_of({F, S});
  EXPECT_TRUE(KvScheme().batchable(layers, nullptr));
  for (const KvScheme& scheme : {uniform(4), config(kTwo), config({}), turbo(8, 3), anchored(4, 4)})
    EXPECT_FALSE(scheme.batchable(layers, nullptr));
}

TEST(KvSchemeBatchable, DelayedStarts) {
  const auto layers = layers_of({F, S, F});
  Probe probe;
  EXPECT_TRUE(uniform(4).batchable(layers, probe.ask()));
  EXPECT_FALSE(uniform(4, 64, 1).batchable(layers, probe.ask()));
  EXPECT_TRUE(uniform(4, 64, 1).batchable(layers, probe.ask(), true));
  EXPECT_FALSE(config(kTwo, 5000).batchable(layers, probe.ask()));
  EXPECT_TRUE(config(kTwo, 5000).batchable(layers, probe.ask(), true));
  EXPECT_TRUE(turbo(8, 3, 5000).batchable(layers, probe.ask()));
  EXPECT_TRUE(turbo(8, 3, 5000).batchable(layers, probe.ask(), true));
  EXPECT_TRUE(anchored(4, 4, 5000).batchable(layers, probe.ask()));
}

TEST(KvSchemeBatchable, UniformAndTurboProbeTheCacheList) {
  const auto layers = layers_of({F, L, S, F, S, F}, 6, 2);
  for (const KvScheme& scheme : {uniform(4), turbo(4, 4), anchored(4, 4)}) {
    Probe probe;
    EXPECT_TRUE(scheme.batchable(layers, probe.ask()));
    EXPECT_THAT(probe.asked, ElementsAre(0, 2, 3));
    Probe refusing{{2}, {}};
    EXPECT_FALSE(scheme.batchable(layers, refusing.ask()));
    EXPECT_THAT(refusing.asked, ElementsAre(0, 2));
    Probe never;
    EXPECT_TRUE(scheme.batchable({}, never.ask()));
    EXPECT_TRUE(never.asked.empty());
  }
}

TEST(KvSchemeBatchable, ConfigEntriesAreBoundedByCaches) {
  const auto layers = layers_of({F, L, S, F, S, F}, 6, 2);
  Probe probe;
  EXPECT_TRUE(config({e(3, 4, 64), e(0, 8, 64)}).batchable(layers, probe.ask()));
  EXPECT_THAT(probe.asked, ElementsAre(3, 0));
  Probe refusing{{0}, {}};
  EXPECT_FALSE(config({e(3, 4, 64), e(0, 8, 64)}).batchable(layers, refusing.ask()));
  for (int64_t index : {int64_t{4}, int64_t{6}, int64_t{-1}, INT64_MAX}) {
    Probe never;
    EXPECT_FALSE(config({e(index, 4, 64)}).batchable(layers, never.ask())) << index;
    EXPECT_TRUE(never.asked.empty());
  }
  EXPECT_FALSE(config({e(1, 4, 64)}).batchable(layers, probe.ask()));  // recurrent
  EXPECT_TRUE(config({}).batchable(layers, probe.ask()));
  // Missing types are full attention.
  EXPECT_TRUE(config({e(2, 4, 64)}).batchable(layers_of({S}, 3), probe.ask()));
}

TEST(KvSchemeCheck, RefusesWhatCannotBeStored) {
  const auto layers = layers_of({F, L, S, F}, 4, 1);
  for (const KvScheme& scheme :
       {KvScheme(), uniform(4), uniform(8, 128), turbo(8, 3), anchored(4, 4), config(kTwo)})
    EXPECT_TRUE(scheme.check(layers).ok()) << scheme.cache_key();
  EXPECT_EQ(config({e(3, 4, 64)}).check(layers).error().text,
            "kv_config.json: entry 0: layer_idx: 3, expected one of the model's 3 caches");
  EXPECT_THAT(config({e(1, 4, 64)}).check(layers).error().text, HasSubstr("recurrent"));
  EXPECT_FALSE(config({e(-1, 4, 64)}).check(layers).ok());
  // Every entry is checked, one that a later entry overrides as well.
  EXPECT_THAT(config({e(0, 4, 64), e(9, 4, 64), e(0, 8, 64)}).check(layers).error().text,
              HasSubstr("entry 1: layer_idx: 9"));

  auto odd = layers_of({F});
  odd[0].k_dim = odd[0].v_dim = 80;
  const Status refused = uniform(4).check(odd);
  EXPECT_EQ(refused.error().code, ErrorCode::unsupported);
  EXPECT_EQ(refused.error().text,
            "kv4: layer 0: K: group: 64, expected a divisor of the head size 80");
  EXPECT_EQ(config({e(0, "bf16"), e(0, 4, 64)}).check(odd).error().text,
            "kv_config.json: entry 1: K: group: 64, expected a divisor of the head size 80");
  EXPECT_FALSE(uniform(4, 32).check(odd).ok());
  EXPECT_TRUE(turbo(4, 4).check(odd).ok());
  odd[0].v_dim = 160;
  EXPECT_FALSE(uniform(4, 32).check(odd).ok());
  odd[0].k_dim = 160;
  EXPECT_TRUE(uniform(4, 32).check(odd).ok());
  odd[0].v_dim = 0;  // a latent row without values: bf16 only
  EXPECT_THAT(uniform(4, 32).check(odd).error().text, HasSubstr("layer 0: head sizes: 160 and 0"));
  EXPECT_TRUE(KvScheme().check(odd).ok());
  odd[0].v_dim = 160;
  odd[0].k_dim = 36;
  EXPECT_THAT(turbo(4, 4).check(odd).error().text, HasSubstr("multiple of 8"));
}

}  // namespace
}  // namespace gyre::kv
