// Rules, bad metadata and time of tokenizers on small made-up vocabularies.
#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <ctime>

#include "text/detokenizer.h"
#include "text/fake_source.h"
#include "text/pretokenizers.h"

namespace gyre::text {
namespace {

using Strings = std::vector<std::string>;
using Ints = std::vector<int64_t>;

double thread_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) + double(t.tv_nsec) * 1e-9;
}

std::string spelled(unsigned b) {
  std::string out;
  const bool printable = (b > 0x20 && b < 0x7F) || (b > 0xA0 && b != 0xAD);
  unsigned next = 256;
  for (unsigned k = 0; k < b && !printable; ++k)
    next += !((k > 0x20 && k < 0x7F) || (k > 0xA0 && k != 0xAD));
  const unsigned c = printable ? b : next;
  if (c < 0x80) return std::string(1, static_cast<char>(c));
  out += static_cast<char>(0xC0 | c >> 6);
  out += static_cast<char>(0x80 | (c & 0x3F));
  return out;
}

FakeSource bpe_source(const std::string& pre = "gpt-2") {
  FakeSource s;
  Strings tokens = {"<s>", "</s>", "<|im_end|>", "<user>", "<unk>"};
  Ints types = {3, 3, 3, 4, 2};
  for (unsigned b = 0; b < 256; ++b) tokens.push_back(spelled(b)), types.push_back(1);
  for (const char* t : {"aa", "aaaa", "Ġa", "Ġaa", "ĠĠ", "ĠĠĠĠ", "th", "the", "Ġthe"}) {
    tokens.push_back(t);
    types.push_back(1);
  }
  s.values["tokenizer.ggml.model"] = std::string("gpt2");
  s.values["tokenizer.ggml.pre"] = pre;
  s.values["tokenizer.ggml.tokens"] = tokens;
  s.values["tokenizer.ggml.token_type"] = types;
  s.values["tokenizer.ggml.merges"] =
      Strings{"a a", "aa aa", "Ġ a", "Ġa a", "Ġ Ġ", "ĠĠ ĠĠ", "t h", "th e", "Ġ the"};
  s.values["tokenizer.ggml.bos_token_id"] = uint64_t{0};
  s.values["tokenizer.ggml.eos_token_id"] = uint64_t{1};
  return s;
}

FakeSource spm_source() {
  FakeSource s;
  Strings tokens = {"<unk>", "<s>", "</s>"};
  Ints types = {2, 3, 3};
  std::vector<double> scores = {0, 0, 0};
  for (int b = 0; b < 256; ++b) {
    char name[8];
    std::snprintf(name, sizeof(name), "<0x%02X>", static_cast<unsigned>(b));
    tokens.push_back(name), types.push_back(6), scores.push_back(0);
  }
  double score = -1;
  for (const char* t : {"▁", "a", "b", "▁a", "aa", "aaaa", "ab", "▁ab", "▁▁", "<u>", "é"}) {
    tokens.push_back(t), types.push_back(t[0] == '<' ? 4 : 1), scores.push_back(score--);
  }
  s.values["tokenizer.ggml.model"] = std::string("llama");
  s.values["tokenizer.ggml.tokens"] = tokens;
  s.values["tokenizer.ggml.token_type"] = types;
  s.values["tokenizer.ggml.scores"] = scores;
  return s;
}

std::unique_ptr<Tokenizer> make(const FakeSource& s) {
  auto t = Tokenizer::make(s);
  EXPECT_TRUE(t.ok()) << t.error().text;
  return t.ok() ? std::move(*t) : nullptr;
}

Strings raws(const Tokenizer& t, const std::vector<TokenId>& ids) {
  Strings out;
  for (TokenId id : ids) out.emplace_back(t.raw(id));
  return out;
}

TEST(Tokenizer, BpeMergesByRank) {
  auto t = make(bpe_source());
  EXPECT_EQ(raws(*t, t->encode("the the aaaaa")), (Strings{"the", "Ġthe", "Ġ", "aaaa", "a"}));
  EXPECT_EQ(t->decode(t->encode("the  the\n\xFF")), "the  the\n\xEF\xBF\xBD");
  EXPECT_EQ(t->family(), "gpt2");
  EXPECT_TRUE(t->encode("").empty());
}

TEST(Tokenizer, SpecialTokensOnRequest) {
  auto t = make(bpe_source());
  EXPECT_EQ(raws(*t, t->encode("a<|im_end|><user>", {true, true})),
            (Strings{"a", "<|im_end|>", "<user>"}));
  const Strings plain = raws(*t, t->encode("<s><user>", {true, false}));
  EXPECT_EQ(plain, (Strings{"<", "s", ">", "<user>"}));  // user-defined tokens are always found
  EXPECT_EQ(t->decode({2, 3}), "<user>");
  EXPECT_EQ(t->decode({2, 3}, true), "<|im_end|><user>");
  EXPECT_TRUE(t->ends_generation(1));
  EXPECT_TRUE(t->ends_generation(2));
  EXPECT_FALSE(t->ends_generation(0));
  EXPECT_FALSE(t->ends_generation(-1));
  EXPECT_EQ(t->piece(-1), "");
  EXPECT_EQ(t->piece(1 << 30, true), "");
  EXPECT_EQ(t->raw(t->size()), "");
}

TEST(Tokenizer, BosAndEosAsTheFileSays) {
  FakeSource s = bpe_source();
  s.values["tokenizer.ggml.add_bos_token"] = true;
  s.values["tokenizer.ggml.add_eos_token"] = true;
  auto t = make(s);
  EXPECT_EQ(raws(*t, t->encode("a")), (Strings{"<s>", "a", "</s>"}));
  EXPECT_EQ(raws(*t, t->encode("a", {false, true})), (Strings{"a"}));
  EXPECT_EQ(raws(*make(bpe_source("llama3")), make(bpe_source("llama3"))->encode("")),
            (Strings{"<s>"}));
}

TEST(Tokenizer, SentencePieceRules) {
  auto t = make(spm_source());
  EXPECT_EQ(raws(*t, t->encode("ab a")), (Strings{"<s>", "▁ab", "▁a"}));
  EXPECT_EQ(raws(*t, t->encode("z\xC3")), (Strings{"<s>", "▁", "<0x7A>", "<0xC3>"}));
  EXPECT_EQ(raws(*t, t->encode("a<u>a</s>a")), (Strings{"<s>", "▁a", "<u>", "▁a", "</s>", "▁a"}));
  EXPECT_EQ(t->decode(t->encode(" ab a")), " ab a");
  EXPECT_EQ(t->decode(t->encode("éz\n")), "éz\n");
  EXPECT_TRUE(t->adds_space_prefix());
}

TEST(Tokenizer, DetokenizerKeepsCodePointsWhole) {
  auto t = make(spm_source());
  const auto byte = [](unsigned b) { return static_cast<TokenId>(3 + b); };
  Detokenizer d(*t);
  EXPECT_EQ(d.push(byte(0xF0)), "");
  EXPECT_EQ(d.push(byte(0x9F)), "");
  EXPECT_EQ(d.push(byte(0x98)), "");
  EXPECT_EQ(d.push(byte(0x80)), "😀");
  EXPECT_EQ(d.push(byte(0xE2)), "");
  EXPECT_EQ(d.push(byte('a')),
            "\xEF\xBF\xBD"
            "a");
  EXPECT_EQ(d.push(byte(0x80)), "\xEF\xBF\xBD");
  EXPECT_EQ(d.push(byte(0xED)), "");
  EXPECT_EQ(d.push(byte(0xA0)), "\xEF\xBF\xBD\xEF\xBF\xBD");  // a surrogate: two invalid parts
  EXPECT_EQ(d.push(byte(0xF4)), "");
  EXPECT_EQ(d.finish(), "\xEF\xBF\xBD");
  EXPECT_EQ(d.finish(), "");
  const TokenId ab = t->encode("ab", {false, true})[0];
  EXPECT_EQ(Detokenizer(*t).push(ab), "ab");
  EXPECT_EQ(Detokenizer(*t, false, true).push(ab), " ab");
}

void refuse(const FakeSource& s, const std::string& part) {
  auto t = Tokenizer::make(s);
  ASSERT_FALSE(t.ok()) << part;
  EXPECT_NE(t.error().text.find(part), std::string::npos) << t.error().text << "\nlacks " << part;
}

TEST(Tokenizer, BadMetadataIsNamed) {
  const auto with = [](FakeSource s, const std::string& key, loaders::MetaValue v) {
    s.values["tokenizer.ggml." + key] = std::move(v);
    return s;
  };
  const auto without = [](FakeSource s, const std::string& key) {
    s.values.erase("tokenizer.ggml." + key);
    return s;
  };
  const FakeSource b = bpe_source(), p = spm_source();
  refuse(FakeSource(), "tokenizer.ggml.model");
  refuse(with(b, "model", std::string("bert")), "tokenizer.ggml.model: bert, expected llama, gpt2");
  refuse(with(b, "model", std::string("t5")), "tokenizer.ggml.model: t5");
  refuse(with(b, "model", int64_t{1}), "tokenizer.ggml.model");
  refuse(with(b, "pre", std::string("foo")), "tokenizer.ggml.pre: foo, expected one of default");
  refuse(without(b, "tokens"), "tokenizer.ggml.tokens: missing");
  refuse(with(b, "tokens", Ints{1}), "tokenizer.ggml.tokens: another type");
  refuse(with(b, "tokens", Strings{}), "tokenizer.ggml.tokens: 0 tokens");
  refuse(with(b, "tokens", Strings{"a", "b", "a"}), "tokenizer.ggml.tokens[2]: 'a'");
  refuse(with(b, "token_type", Ints{1, 1}), "tokenizer.ggml.token_type: 2 entries, expected 270");
  refuse(with(b, "token_type", Strings{}), "tokenizer.ggml.token_type: another type");
  refuse(with(b, "token_type", Ints(270, 7)), "tokenizer.ggml.token_type[0]: 7, expected 0 to 6");
  refuse(with(b, "token_type", Ints(270, -1)), "tokenizer.ggml.token_type[0]: -1");
  refuse(without(b, "merges"), "tokenizer.ggml.merges: missing");
  refuse(with(b, "merges", std::vector<double>{1}), "tokenizer.ggml.merges: another type");
  refuse(with(b, "merges", Strings{"a a", "a zz"}), "tokenizer.ggml.merges[1]: 'a zz'");
  refuse(with(b, "merges", Strings{"a b"}), "tokenizer.ggml.merges[0]: 'a b'");
  refuse(with(b, "merges", Strings{""}), "tokenizer.ggml.merges[0]");
  refuse(with(b, "merges", Strings{"aa"}), "tokenizer.ggml.merges[0]: 'aa'");
  refuse(with(b, "bos_token_id", uint64_t{270}),
         "tokenizer.ggml.bos_token_id: 270, expected less than 270");
  refuse(with(b, "eos_token_id", ~uint64_t{0}),
         "tokenizer.ggml.eos_token_id: 18446744073709551615");
  refuse(with(b, "eos_token_id", int64_t{-1}), "tokenizer.ggml.eos_token_id");
  refuse(with(b, "eot_token_id", std::string("x")), "tokenizer.ggml.eot_token_id");
  refuse(with(b, "add_bos_token", uint64_t{1}), "tokenizer.ggml.add_bos_token");
  refuse(with(without(b, "bos_token_id"), "add_bos_token", true),
         "tokenizer.ggml.bos_token_id: missing");
  refuse(without(p, "scores"), "tokenizer.ggml.scores: missing");
  refuse(with(p, "scores", std::vector<double>{1}),
         "tokenizer.ggml.scores: 1 entries, expected 270");
  refuse(with(p, "scores", std::vector<double>(270, NAN)), "tokenizer.ggml.scores[0]: nan");
  refuse(with(p, "scores", std::vector<double>(270, 1e300)), "tokenizer.ggml.scores[0]");
  refuse(without(p, "token_type"), "tokenizer.ggml.token_type: missing");
  refuse(with(p, "add_space_prefix", std::string("yes")), "tokenizer.ggml.add_space_prefix");
}

// One repeated character: far below a quadratic algorithm's hours, whatever the load.
TEST(Tokenizer, TimeIsLinearForRepetitions) {
  std::vector<std::unique_ptr<Tokenizer>> all;
  std::vector<std::string> names;
  for (std::string_view pre : pre_tokenizer_names()) {
    FakeSource s = bpe_source(std::string(pre));
    if (pre == "gemma4") s.values["tokenizer.ggml.add_bos_token"] = false;
    all.push_back(make(s));
    names.emplace_back(pre);
  }
  all.push_back(make(spm_source()));
  names.push_back("sentencepiece");
  for (const char* unit : {"a", " ", "\n", "1", "🙂", "\u0301", "漢", "A", "'", "=", "\r\n", " a",
                           "Aa", "\xFF", "<", "<user>"}) {
    std::string text;
    while (text.size() < 150000) text += unit;
    text += "1x";
    for (size_t i = 0; i < all.size(); ++i) {
      if (i % 7 != 0 && i + 1 != all.size() && names[i] != "deepseek-llm" && names[i] != "gpt-4o")
        continue;
      const double start = thread_seconds();
      EXPECT_FALSE(all[i]->encode(text).empty() && names[i] != "gemma4");
      EXPECT_LT(thread_seconds() - start, 1.0) << names[i] << " " << unit;
    }
  }
}

}  // namespace
}  // namespace gyre::text
