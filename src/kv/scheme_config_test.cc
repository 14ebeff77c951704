// kv_config.json: published shapes, and errors that name the entry.
#include "kv/scheme_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "os/file.h"
#include "os/temporary.h"

namespace gyre::kv {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(KvConfig, ReadsEntriesInOrder) {
  const auto got = parse_kv_config(
      R"([{"layer_idx": 0, "bits": 4, "group_size": 64},
          {"layer_idx": 41, "bits": 8, "group_size": 32, "note": [1, {"x": null}]},
          {"layer_idx": 0, "bits": 6, "group_size": 128}])",
      "c");
  ASSERT_TRUE(got.ok()) << got.error().text;
  EXPECT_THAT(*got, ElementsAre(KvConfigEntry{0, *affine_code(4, 64)},
                                KvConfigEntry{41, *affine_code(8, 32)},
                                KvConfigEntry{0, *affine_code(6, 128)}));
  EXPECT_TRUE(parse_kv_config("[]", "c")->empty());
}

TEST(KvConfig, ACodeMayBeNamed) {
  const auto got = parse_kv_config(
      R"([{"layer_idx": 3, "code": "turbo-k8v4"}, {"layer_idx": 0, "code": "anchor-k4v4", "x": 1},
          {"layer_idx": 1, "code": "bf16"}, {"layer_idx": 2, "code": "kv4-g32"}])",
      "c");
  ASSERT_TRUE(got.ok()) << got.error().text;
  EXPECT_THAT(
      *got, ElementsAre(KvConfigEntry{3, *turbo_code(8, 4)}, KvConfigEntry{0, *anchored_code(4, 4)},
                        KvConfigEntry{1, LayerCode{}}, KvConfigEntry{2, *affine_code(4, 32)}));
}

struct Bad {
  const char* text;
  const char* error;
};

TEST(KvConfig, ErrorsNameTheEntry) {
  const std::vector<Bad> table = {
      {"", "c: not JSON, expected a JSON array"},
      {"[{]", "c: not JSON"},
      {"[] x", "c: not JSON"},
      {"\xff", "c: not JSON"},
      {"{}", "c: object, expected a JSON array"},
      {"[3]", "c: entry 0: number, expected an object"},
      {R"([{"layer_idx": 0, "bits": 4, "group_size": 64}, {"layer_idx": 1, "bits": 4}])",
       "c: entry 1: group_size: missing, expected 32, 64 or 128"},
      {R"([{"bits": 4, "group_size": 64}])", "c: entry 0: layer_idx: missing"},
      {R"([{"layer_idx": 0, "group_size": 64}])", "c: entry 0: bits: missing"},
      {R"([{"layer_idx": -1, "bits": 4, "group_size": 64}])", "c: entry 0: layer_idx: -1"},
      {R"([{"layer_idx": 18446744073709551615, "bits": 4, "group_size": 64}])",
       "c: entry 0: layer_idx: 18446744073709551615"},
      {R"([{"layer_idx": 99999999999, "bits": 4, "group_size": 64}])", "layer_idx: 99999999999"},
      {R"([{"layer_idx": 0, "bits": 7, "group_size": 64}])",
       "c: entry 0: bits: 7, expected 2, 3, 4, 5, 6 or 8"},
      {R"([{"layer_idx": 0, "bits": 4294967300, "group_size": 64}])", "bits: 4294967300"},
      {R"([{"layer_idx": 0, "bits": 4.0, "group_size": 64}])", "c: entry 0: bits: 4.0"},
      {R"([{"layer_idx": 0, "bits": "4", "group_size": 64}])", "c: entry 0: bits: \"4\""},
      {R"([{"layer_idx": 0, "bits": 4, "group_size": 48}])", "c: entry 0: group_size: 48"},
      {R"([{"layer_idx": true, "bits": 4, "group_size": 64}])", "layer_idx: true"},
      {R"([{"layer_idx": 0, "code": 8}])", "c: entry 0: code: number, expected a name"},
      {R"([{"layer_idx": 0, "code": null}])", "c: entry 0: code: null, expected a name"},
      {R"([{"layer_idx": 0, "code": "turbo"}])",
       "c: entry 0: code: kv code: turbo, expected bf16, kv8"},
      {R"([{"layer_idx": 0, "code": "turbo-k7v4"}])", "c: entry 0: code: turbo key bits: 7"},
      {R"([{"layer_idx": 0, "code": "kv8-start1"}])", "c: entry 0: code: kv code: kv8-start1"},
      {R"([{"layer_idx": 0, "code": "kv8", "bits": 8}])",
       "c: entry 0: bits: given, expected nothing beside code"},
      {R"([{"code": "kv8"}])", "c: entry 0: layer_idx: missing"},
  };
  for (const Bad& bad : table) {
    const auto got = parse_kv_config(bad.text, "c");
    ASSERT_FALSE(got.ok()) << bad.text;
    EXPECT_EQ(got.error().code, ErrorCode::bad_file);
    EXPECT_THAT(got.error().text, HasSubstr(bad.error)) << bad.text;
  }
}

TEST(KvConfig, DeepNestingIsOnlyText) {
  const std::string open(300'000, '['), close(300'000, ']');
  EXPECT_THAT(parse_kv_config(open + close, "c").error().text, HasSubstr("entry 0: array"));
  EXPECT_THAT(parse_kv_config(open, "c").error().text, HasSubstr("not JSON"));
}

TEST(KvConfig, TheFileIsReadAndBounded) {
  EXPECT_EQ(read_kv_config("no/such/kv_config.json").error().code, ErrorCode::not_found);
  const auto folder = os::TemporaryFolder::make("kv-config");
  ASSERT_TRUE(folder.ok());
  const std::string path = folder->path() + "/kv_config.json";
  const auto write = [&](const std::string& text) {
    ASSERT_TRUE(os::write_file_atomically(path, std::as_bytes(std::span(text))).ok());
  };
  write(R"([{"layer_idx": 3, "bits": 5, "group_size": 32}])");
  EXPECT_THAT(*read_kv_config(path), ElementsAre(KvConfigEntry{3, *affine_code(5, 32)}));
  write("[3]");
  EXPECT_THAT(read_kv_config(path).error().text, HasSubstr(path + ": entry 0"));
  write("[" + std::string(2 << 20, ' ') + "]");
  EXPECT_FALSE(read_kv_config(path).ok());
}

}  // namespace
}  // namespace gyre::kv
