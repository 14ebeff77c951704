// Token ids, pieces and end-of-generation sets against llama.cpp:
// tests/oracle/make_tokenizer_goldens.py.
#include <gtest/gtest.h>

#include <cinttypes>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "text/detokenizer.h"
#include "text/fake_source.h"
#include "text/pretokenizers.h"
#include "text/tokenizer.h"

namespace gyre::text {
namespace {

const std::string kDir = GYRE_SOURCE_DIR "/tests/golden/tokenizer/";

std::string unescape(std::string_view line) {
  std::string out;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\\') {
      out += static_cast<char>(std::stoi(std::string(line.substr(i + 1, 2)), nullptr, 16));
      i += 2;
    } else {
      out += line[i];
    }
  }
  return out;
}

std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream in(path);
  EXPECT_TRUE(in.good()) << path;
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

const std::vector<std::string>& strings() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> out;
    for (const std::string& line : lines_of(kDir + "strings.txt")) out.push_back(unescape(line));
    return out;
  }();
  return all;
}

struct Fnv {
  uint64_t h = 0xCBF29CE484222325u;
  void byte(uint8_t b) { h = (h ^ b) * 0x100000001B3u; }
  void id(TokenId v) {
    for (int i = 0; i < 4; ++i) byte(static_cast<uint8_t>(static_cast<uint32_t>(v) >> 8 * i));
  }
};

EncodeOptions options_of(const std::string& mode) {
  return {mode[0] == '1', mode[1] == '1'};
}

class Case {
 public:
  Case(const Tokenizer& tokenizer, const std::string& name) : t_(tokenizer), name_(name) {}

  void check() {
    for (const std::string& line : lines_of(kDir + name_ + ".txt")) {
      std::istringstream in(line);
      std::string what;
      in >> what;
      if (what == "ids") {
        ids(in);
      } else if (what == "pieces:") {
        pieces(in);
      } else if (what == "eog:") {
        ends(in);
      } else if (what == "special:") {
        specials(in);
      } else {
        blocks(what, in);
      }
    }
    EXPECT_GT(checks_, 1) << name_;
  }

 private:
  void ids(std::istream& in) {
    std::string mode;
    size_t index;
    char colon;
    in >> mode >> index >> colon;
    std::vector<TokenId> expected;
    for (TokenId id; in >> id;) expected.push_back(id);
    EXPECT_EQ(t_.encode(strings().at(index), options_of(mode)), expected)
        << name_ << " mode " << mode << " string " << index << ": " << strings()[index];
    ++checks_;
  }
  void blocks(const std::string& mode, std::istream& in) {
    std::string word, hashes;
    size_t block, count;
    in >> word >> block >> word >> count >> word >> hashes;
    ASSERT_LE(count, strings().size());
    ASSERT_EQ(hashes.size(), (count + block - 1) / block * 8);
    int shown = 0;
    for (size_t i = 0; i < hashes.size() / 8 && shown < 3; ++i) {
      Fnv f;
      for (size_t k = i * block; k < std::min(count, (i + 1) * block); ++k) {
        for (TokenId id : t_.encode(strings()[k], options_of(mode))) f.id(id);
        f.id(-1);
      }
      const uint64_t expected = std::stoull(hashes.substr(i * 8, 8), nullptr, 16);
      EXPECT_EQ(f.h & 0xFFFFFFFF, expected) << name_ << " mode " << mode << " strings from "
                                            << i * block << ": " << strings()[i * block];
      shown += (f.h & 0xFFFFFFFF) != expected;
      ++checks_;
    }
  }
  void pieces(std::istream& in) {
    std::string hashes[2];  // with and without special tokens
    in >> hashes[0] >> hashes[1];
    std::set<TokenId> strange;  // the oracle spells them in its own way
    for (TokenId id; in >> id;) strange.insert(id);
    for (bool special : {true, false}) {
      Fnv f;
      for (TokenId id = 0; id < t_.size(); ++id) {
        if (strange.contains(id)) continue;
        for (char c : t_.piece(id, special)) f.byte(static_cast<uint8_t>(c));
        f.byte(0xFF);
      }
      EXPECT_EQ(f.h, std::stoull(hashes[special ? 0 : 1], nullptr, 16))
          << name_ << " pieces, special " << special;
    }
    ++checks_;
  }
  void ends(std::istream& in) {
    std::vector<TokenId> expected, is;
    for (TokenId id; in >> id;) expected.push_back(id);
    for (TokenId id = 0; id < t_.size(); ++id) {
      if (t_.ends_generation(id)) is.push_back(id);
    }
    EXPECT_EQ(is, expected) << name_;
    ++checks_;
  }
  void specials(std::istream& in) {
    size_t expected, count = 0;
    std::string hash;
    in >> expected >> hash;
    Fnv f;
    for (TokenId id = 0; id < t_.size(); ++id) {
      if (!t_.is_special(id)) continue;
      ++count;
      f.id(id);
    }
    EXPECT_EQ(count, expected) << name_;
    EXPECT_EQ(f.h, std::stoull(hash, nullptr, 16)) << name_;
    ++checks_;
  }

  const Tokenizer& t_;
  std::string name_;
  int checks_ = 0;
};

FakeSource toy_bpe(const std::string& pre) {
  FakeSource s;
  std::vector<std::string> tokens, merges;
  std::vector<int64_t> types;
  for (const std::string& line : lines_of(kDir + "toy_bpe.txt")) {
    if (line[0] == 'm') {
      merges.push_back(unescape(line.substr(2)));
    } else {
      types.push_back(line[0] - '0');
      tokens.push_back(unescape(line.substr(2)));
    }
  }
  const auto id = [&](const char* t) {
    return static_cast<uint64_t>(std::find(tokens.begin(), tokens.end(), t) - tokens.begin());
  };
  s.values["tokenizer.ggml.model"] = std::string("gpt2");
  s.values["tokenizer.ggml.pre"] = pre;
  s.values["tokenizer.ggml.bos_token_id"] = id("<s>");
  s.values["tokenizer.ggml.eos_token_id"] = id("</s>");
  s.values["tokenizer.ggml.add_eos_token"] = true;
  s.values["tokenizer.ggml.tokens"] = tokens;
  s.values["tokenizer.ggml.token_type"] = types;
  s.values["tokenizer.ggml.merges"] = merges;
  return s;
}

TEST(TokenizerGolden, EveryPreTokenizer) {
  for (std::string_view pre : pre_tokenizer_names()) {
    if (pre == "gemma4") continue;  // no byte alphabet: checked with its own vocabulary
    auto tokenizer = Tokenizer::make(toy_bpe(std::string(pre)));
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().text;
    Case(**tokenizer, "toy_bpe." + std::string(pre)).check();
  }
}

TEST(TokenizerGolden, ToySentencePiece) {
  FakeSource s;
  std::vector<std::string> tokens;
  std::vector<double> scores;
  std::vector<int64_t> types;
  for (const std::string& line : lines_of(kDir + "toy_spm.txt")) {
    const size_t space = line.find(' ', 2);
    types.push_back(line[0] - '0');
    scores.push_back(std::stod(line.substr(2, space - 2)));
    tokens.push_back(unescape(line.substr(space + 1)));
  }
  s.values["tokenizer.ggml.model"] = std::string("llama");
  s.values["tokenizer.ggml.tokens"] = tokens;
  s.values["tokenizer.ggml.token_type"] = types;
  s.values["tokenizer.ggml.scores"] = scores;
  auto prefix = Tokenizer::make(s);
  ASSERT_TRUE(prefix.ok()) << prefix.error().text;
  Case(**prefix, "toy_spm.prefix").check();
  s.values["tokenizer.ggml.add_space_prefix"] = false;
  s.values["tokenizer.ggml.add_bos_token"] = false;
  s.values["tokenizer.ggml.add_eos_token"] = true;
  auto plain = Tokenizer::make(s);
  ASSERT_TRUE(plain.ok()) << plain.error().text;
  Case(**plain, "toy_spm.plain").check();
}

// The bytes that have a token of their own: byte-level vocabularies may lack some.
std::string known_bytes(const Tokenizer& t) {
  std::string known;
  for (TokenId id = 0; id < t.size(); ++id) {
    if (const std::string piece = t.piece(id); piece.size() == 1) known += piece;
  }
  return known;
}

// U+2581 stands for a space in the vocabularies that are not byte-level.
bool can_return(const std::string& known, const std::string& text) {
  return replace_invalid_utf8(text) == text && text.find("\xE2\x96\x81") == std::string::npos &&
         text.find_first_not_of(known) == std::string::npos;
}

// The stream's text is the whole text, and decoding undoes encoding.
void check_decoding(const Tokenizer& t) {
  int returned = 0;
  const std::string known = known_bytes(t);
  for (const std::string& text : strings()) {
    const std::vector<TokenId> ids = t.encode(text, {true, false});
    Detokenizer stream(t);
    std::string joined;
    for (TokenId id : ids) {
      const std::string part = stream.push(id);
      EXPECT_EQ(replace_invalid_utf8(part), part);  // whole code points
      joined += part;
    }
    joined += stream.finish();
    const std::string whole = t.decode(ids);
    ASSERT_EQ(joined, replace_invalid_utf8(whole));
    if (can_return(known, text)) {
      ASSERT_EQ(whole, text);
      ++returned;
    }
  }
  EXPECT_GT(returned, 1000);
}

void check_file(const std::string& file, const std::string& name) {
  const std::string path = GYRE_SOURCE_DIR "/models/" + file;
  if (!std::filesystem::exists(path))
    GTEST_SKIP() << "models/" << file << " is missing: ./dev fetches it";
  auto source = loaders::open_weights(path);
  ASSERT_TRUE(source.ok()) << source.error().text;
  auto tokenizer = Tokenizer::make(**source);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().text;
  source->reset();  // the tokenizer keeps nothing of it
  Case(**tokenizer, name).check();
  check_decoding(**tokenizer);
}

TEST(TokenizerGolden, SmolLM2) {
  check_file("SmolLM2-135M-Instruct.Q4_1.gguf", "SmolLM2-135M-Instruct.Q4_1");
}
TEST(TokenizerGolden, Gemma3) {
  check_file("gemma-3-270m-q4_k_m.gguf", "gemma-3-270m-q4_k_m");
}

class PublishedVocabulary : public testing::TestWithParam<const char*> {};
TEST_P(PublishedVocabulary, AgreesWithTheOracle) {
  const std::string name = GetParam();
  check_file("vocab/ggml-vocab-" + name + ".gguf", "vocab.ggml-vocab-" + name);
}
INSTANTIATE_TEST_SUITE_P(All, PublishedVocabulary,
                         testing::Values("baichuan", "command-r", "deepseek-coder", "deepseek-llm",
                                         "falcon", "gemma-4", "gpt-2", "llama-bpe", "llama-spm",
                                         "mpt", "phi-3", "qwen2", "qwen35", "refact", "starcoder"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace gyre::text
