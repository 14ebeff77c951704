// KV schemes through whole models: the same bits on every instruction set and in any company,
// exact bytes, refusals by name, and rows that go on where they were left.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/compare.h"
#include "engine/generate.h"
#include "engine/runner.h"
#include "engine/score.h"
#include "engine/tiny_models.h"
#include "kv/scheme_places.h"
#include "os/temporary.h"

namespace gyre::engine {
namespace {

using testing::HasSubstr;

// Every kind, with starts that a text of 150 tokens reaches: before, on and behind a page's end.
constexpr const char* kKeys[] = {"bf16",
                                 "kv8",
                                 "kv4",
                                 "kv3-g32",
                                 "kv6-g32-start64",
                                 "kv8-start100",
                                 "turbo-k8v4",
                                 "turbo-k2v3",
                                 "anchor-k4v4",
                                 "anchor-k5v3",
                                 "turbo-k8v4-start128",
                                 "anchor-k4v4-start70"};

kv::KvScheme scheme(const char* key) {
  return *kv::KvScheme::parse(key, nullptr);
}

class SchemeTest : public testing::Test {
 protected:
  SchemeTest() : folder_(std::move(*os::TemporaryFolder::make("gyre-scheme"))) {}

  std::string path() const { return folder_.path() + "/tiny.gguf"; }
  std::unique_ptr<Loaded> load(TinySpec spec, const std::string& isa = {}, bool oracle = false) {
    EXPECT_TRUE(TinyModel(std::move(spec)).write(path()).ok());
    auto loaded = Loaded::open({.path = path(), .threads = 2, .isa = isa, .oracle = oracle});
    EXPECT_TRUE(loaded.ok()) << (loaded ? "" : loaded.error().text);
    return loaded ? std::move(*loaded) : nullptr;
  }
  static std::vector<TokenId> ids(uint32_t count, uint64_t stream = 0) {
    std::vector<TokenId> out(count);
    for (uint32_t i = 0; i < count; ++i)
      out[i] =
          static_cast<TokenId>(numerics::random_bits(7, stream, i, 0) % TinyModel::kVocabulary);
    return out;
  }
  static std::unique_ptr<Runner> make_runner(Loaded& loaded, RunnerSettings settings = {}) {
    auto runner = Runner::make(loaded, settings);
    EXPECT_TRUE(runner.ok()) << (runner ? "" : runner.error().text);
    return std::move(*runner);
  }
  static std::string digest(Loaded& loaded, const char* key, std::span<const TokenId> text,
                            uint32_t chunk = 512) {
    const auto out = score(*make_runner(loaded, {.scheme = scheme(key)}), text, {.chunk = chunk});
    EXPECT_TRUE(out.ok()) << (out ? "" : out.error().text);
    return out ? out->digest : "";
  }

  os::TemporaryFolder folder_;
};

TinySpec llama() {
  return {.layers = 2, .dtypes = {DType::q4_0, DType::q6_k}};
}
TinySpec gemma() {
  return {.architecture = "gemma3", .layers = 3, .window = 40, .dtypes = {DType::q8_0}};
}

// What a changed code or kernel changes, whatever the reason: docs/contract.md.
using Digests = std::vector<std::pair<const char*, const char*>>;
void expect_digests(const std::map<std::string, std::string>& got, const Digests& wanted) {
  EXPECT_EQ(got.size(), wanted.size());
  for (const auto& [key, digest] : wanted) EXPECT_EQ(got.at(key), digest) << key;
}

const Digests kLlamaDigests = {{"bf16", "abb41acd5b83905484cc5bfcf5740f3f"},
                               {"kv8", "c208a8143a793b9f754e10d0e2e063c8"},
                               {"kv4", "5e4bfa6b0ebed49fe1030ab5990dbde8"},
                               {"kv3-g32", "e8f3e587d0d477ea60f425597865f659"},
                               {"kv6-g32-start64", "2795bcd5e1918ec08a9b4b1dc601d22f"},
                               {"kv8-start100", "48175488c75f3538767949786171266f"},
                               {"turbo-k8v4", "aabc5fc17d3d08a07aeafd9aaa23a796"},
                               {"turbo-k2v3", "1405133667c558765ba8a7a431f5dc57"},
                               {"anchor-k4v4", "cf89f6531453caf56aaa71b1966c2eaa"},
                               {"anchor-k5v3", "f925e64d2a34221b2fd4c2d7c2dd622c"},
                               {"turbo-k8v4-start128", "638e7af57b6afeffa6570d8436ef1724"},
                               {"anchor-k4v4-start70", "996809a539955df1e1bf7369dee68c8d"}};
const Digests kGemmaDigests = {{"bf16", "167d97fe08ecd06745c5c80abb27aff8"},
                               {"kv8", "bfb26aea3b9506253177028d4f0a7fca"},
                               {"kv4", "a0cb7b622e5895e3595363421241c829"},
                               {"kv3-g32", "151e58b6d3a79b1d27c93c116782721d"},
                               {"kv6-g32-start64", "ebb256805897e84f4093a9070ca875b7"},
                               {"kv8-start100", "693e9b60151965d51d503ed6da4407fe"},
                               {"turbo-k8v4", "c93b7cbf56894ee9c4dcb24e86635f5f"},
                               {"turbo-k2v3", "50ce6063b51e86785a4fc155fc86edad"},
                               {"anchor-k4v4", "ef33aac3786f811162a143580798ca49"},
                               {"anchor-k5v3", "374456c59b85e1df92a66f7c0c89fbc4"},
                               {"turbo-k8v4-start128", "356a74ec64c512133a3d941cd2a30042"},
                               {"anchor-k4v4-start70", "1ce893709f950d459560ac234e06d53a"}};

TEST_F(SchemeTest, DigestsOnEveryInstructionSet) {
  const std::vector<TokenId> text = ids(150);
  for (const auto& [spec, wanted] :
       {std::pair(llama(), kLlamaDigests), std::pair(gemma(), kGemmaDigests)}) {
    for (const kernels::Isa isa : kernels::available_isas()) {
      SCOPED_TRACE(kernels::isa_name(isa));
      const auto loaded = load(spec, std::string(kernels::isa_name(isa)));
      std::map<std::string, std::string> got;
      for (const char* key : kKeys) got[key] = digest(*loaded, key, text);
      expect_digests(got, wanted);
    }
  }
}

TEST_F(SchemeTest, ChunksChangeNothing) {
  const auto loaded = load(gemma());
  const std::vector<TokenId> text = ids(150);
  for (const char* key : kKeys) {
    const std::string whole = digest(*loaded, key, text);
    for (const uint32_t chunk : {1u, 7u, 64u, 65u})
      EXPECT_EQ(digest(*loaded, key, text, chunk), whole) << key << " by " << chunk;
  }
}

// One step, a row of each scheme at its own pace; each is as if it were alone.
TEST_F(SchemeTest, RowsOfAllSchemesShareAStep) {
  const auto loaded = load(gemma());
  constexpr uint32_t kRows = std::size(kKeys), kLength = 150;
  const auto together = make_runner(*loaded, {.max_tokens = kRows * 16, .max_rows = kRows});
  std::vector<kv::Sequence> rows;
  std::vector<std::vector<TokenId>> texts;
  std::vector<std::vector<float>> hidden(kRows);
  const uint32_t dim = loaded->model().info().dim;
  for (uint32_t r = 0; r < kRows; ++r) {
    rows.push_back(std::move(*together->open_row(scheme(kKeys[r]))));
    texts.push_back(ids(kLength, r));
  }
  for (uint32_t round = 0;; ++round) {
    std::vector<RowTokens> step;
    std::vector<uint32_t> of;
    for (uint32_t r = 0; r < kRows; ++r) {
      const uint32_t pace = 1 + static_cast<uint32_t>(numerics::random_bits(9, r, round, 0) % 16);
      const uint32_t done = rows[r].length(), n = std::min(pace, kLength - done);
      if (n == 0) continue;
      step.push_back({&rows[r], std::span<const TokenId>(texts[r]).subspan(done, n)});
      of.push_back(r);
    }
    if (step.empty()) break;
    ASSERT_TRUE(together->step(step).ok());
    uint32_t token = 0;
    for (size_t i = 0; i < step.size(); ++i) {
      const float* first = together->hidden(token);
      hidden[of[i]].insert(hidden[of[i]].end(), first, first + step[i].tokens.size() * dim);
      token += static_cast<uint32_t>(step[i].tokens.size());
    }
  }
  const auto alone = make_runner(*loaded);
  for (uint32_t r = 0; r < kRows; ++r) {
    auto row = alone->open_row(scheme(kKeys[r]));
    const RowTokens step{&*row, texts[r]};
    ASSERT_TRUE(alone->step({&step, 1}).ok());
    EXPECT_EQ(std::memcmp(alone->hidden(0), hidden[r].data(), hidden[r].size() * sizeof(float)), 0)
        << kKeys[r];
    EXPECT_TRUE(row->same_bytes(rows[r])) << kKeys[r];
  }
}

// The formula of bytes_at, plus at most a page at each end of what a layer stores (only a window
// has a front end).
TEST_F(SchemeTest, BytesAreThoseOfTheFormula) {
  const auto loaded = load(gemma());
  const auto runner = make_runner(*loaded);
  const std::vector<kv::LayerShape> layers = kv::layer_shapes(loaded->model().places());
  for (const char* key : kKeys) {
    const kv::KvScheme of = scheme(key);
    const auto places = *kv::apply_scheme(of, loaded->model().places());
    size_t page = 0;
    for (const kv::LayerSpec& place : places) {
      const size_t one = std::max(place.layout.page_bytes(), place.layout.wide().page_bytes());
      page += place.place == kv::Place::sliding ? 2 * one : one;
    }
    auto row = runner->open_row(of);
    for (const uint32_t n : {1u, 62u, 1u, 1u, 5u, 58u, 22u, 200u}) {
      const std::vector<TokenId> text = ids(n);
      const RowTokens step{&*row, text};
      ASSERT_TRUE(runner->step({&step, 1}).ok());
      const uint64_t formula = of.bytes_at(layers, row->length());
      EXPECT_GE(row->bytes(), formula) << key << " at " << row->length();
      EXPECT_LE(row->bytes(), formula + page + 64 * layers.size())
          << key << " at " << row->length();
      EXPECT_EQ(row->bytes(), runner->pages().bytes_in_use());
    }
  }
}

TEST_F(SchemeTest, RefusedAtLoadByName) {
  const auto loaded =
      load({.layers = 2, .heads = 6, .kv_heads = 2, .head_dim = 32, .dtypes = {DType::q8_0}});
  const auto refusal = [](Loaded& of, const kv::KvScheme& asked) {
    const auto runner = Runner::make(of, {.scheme = asked});
    EXPECT_FALSE(runner.ok());
    return runner.ok() ? "" : runner.error().text;
  };
  EXPECT_THAT(refusal(*loaded, scheme("kv4")),
              HasSubstr("kv4: layer 0: K: group: 64, expected a divisor of the head size 32"));
  EXPECT_TRUE(Runner::make(*loaded, {.scheme = scheme("kv4-g32")}).ok());
  const auto beyond = *kv::KvScheme::affine_config({{2, *kv::turbo_code(8, 4)}});
  EXPECT_THAT(
      refusal(*loaded, beyond),
      HasSubstr("kv_config.json: entry 0: layer_idx: 2, expected one of the model's 2 caches"));
  const auto runner = make_runner(*loaded);
  EXPECT_FALSE(runner->open_row(scheme("kv8")).ok());
  EXPECT_EQ(runner->pages().bytes_in_use(), 0u);
  const auto oracle = load(llama(), {}, true);
  EXPECT_THAT(refusal(*oracle, scheme("kv8")), HasSubstr("kv8, expected bf16 where"));
}

TEST_F(SchemeTest, SchemesAreMeasuredAgainstEachOther) {
  const auto loaded = load(llama());
  const auto runner = make_runner(*loaded, {.max_tokens = 128, .max_rows = 2});
  const std::vector<TokenId> text = ids(1100);
  const auto same = compare_schemes(*runner, text, scheme("kv8"), scheme("kv8"), {});
  ASSERT_TRUE(same.ok()) << same.error().text;
  EXPECT_EQ(same->all.kl, 0.0);
  EXPECT_EQ(same->all.same_top, 1.0);
  EXPECT_EQ(same->all.perplexity, same->all.against_perplexity);
  ASSERT_EQ(same->depths.size(), 2u);
  EXPECT_EQ(same->depths[1].from, 1024u);
  EXPECT_EQ(same->depths[1].to, 1099u);
  const auto eight = compare_schemes(*runner, text, scheme("kv8"), scheme("bf16"), {});
  const auto two = compare_schemes(*runner, text, scheme("kv2"), scheme("bf16"), {});
  ASSERT_TRUE(eight.ok() && two.ok());
  EXPECT_GT(eight->all.kl, 0.0);
  EXPECT_GT(two->all.kl, 20 * eight->all.kl);
  // The runner's own score says the same of the bf16 row.
  const auto plain = score(*make_runner(*loaded), text, {});
  EXPECT_NEAR(two->all.against_perplexity / plain->perplexity, 1.0, 1e-6);
}

// Twice 20 tokens are 40, whatever the scheme and wherever the cut.
TEST_F(SchemeTest, GenerationGoesOnWhereItWasLeft) {
  const auto loaded = load(gemma());
  const std::vector<TokenId> prompt = ids(55);
  for (const char* key : kKeys) {
    for (const float temperature : {0.0f, 1.0f}) {
      GenerateSettings settings;
      settings.ignore_eos = true;
      settings.sampler.temperature = temperature;
      settings.sampler.repetition_penalty = 1.1f;
      settings.sampler.seed = 5;
      const auto runner = make_runner(*loaded, {.scheme = scheme(key)});
      settings.max_new_tokens = 40;
      const auto whole = generate(*runner, prompt, settings);
      ASSERT_TRUE(whole.ok()) << whole.error().text;
      ASSERT_EQ(whole->ids.size(), 40u);
      auto row = runner->open_row();
      std::vector<TokenId> past = prompt;
      std::vector<TokenId> parts;
      std::string text;
      for (const uint32_t n : {20u, 0u, 1u, 19u}) {
        settings.max_new_tokens = n;
        const auto part = resume(*runner, *row, past, settings);
        ASSERT_TRUE(part.ok()) << part.error().text;
        parts.insert(parts.end(), part->ids.begin(), part->ids.end());
      }
      EXPECT_EQ(parts, whole->ids) << key;
      EXPECT_EQ(past.size(), prompt.size() + 40);
    }
  }
}

}  // namespace
}  // namespace gyre::engine
