// What the tokenizer fuzz targets share: bytes -> metadata and text -> properties.
//
// Input: a byte of flags, a byte that picks the pre-tokenizer, then records up to a zero byte and
// the text after it. A record is a kind and a length: token (kind & 7 its type), merge, or a value.
#pragma once

#include <cstdlib>
#include <string>

#include "text/detokenizer.h"
#include "text/fake_source.h"
#include "text/pretokenizers.h"
#include "text/tokenizer.h"

namespace gyre::text {

inline void require(bool condition) {
  if (!condition) std::abort();
}

class TokenizerInput {
 public:
  TokenizerInput(const std::string& model, const uint8_t* data, size_t size)
      : rest_(reinterpret_cast<const char*>(data), size) {
    const unsigned flags = next(), pre = next();
    const auto names = pre_tokenizer_names();
    auto& v = source.values;
    v["tokenizer.ggml.model"] = model;
    v["tokenizer.ggml.pre"] = pre < names.size() ? std::string(names[pre]) : std::string("x");
    if (flags & 1) v["tokenizer.ggml.add_space_prefix"] = false;
    if (flags & 2) v["tokenizer.ggml.add_bos_token"] = false;
    if (flags & 4) v["tokenizer.ggml.add_eos_token"] = true;
    if (flags & 8) v["general.name"] = std::string("Phi-3");
    if (flags & 16) add_bytes(model == "gpt2");
    records();
    if (flags & 32) types_.resize(types_.size() / 2);
    v["tokenizer.ggml.tokens"] = tokens_;
    if (!(flags & 64)) v["tokenizer.ggml.token_type"] = types_;
    v["tokenizer.ggml.scores"] = scores_;
    v["tokenizer.ggml.merges"] = merges_;
    text = rest_;
  }

  FakeSource source;
  std::string text;

 private:
  unsigned next() {
    if (rest_.empty()) return 0;
    const unsigned char c = static_cast<unsigned char>(rest_[0]);
    rest_.remove_prefix(1);
    return c;
  }
  void token(std::string text, int64_t type, double score) {
    tokens_.push_back(std::move(text));
    types_.push_back(type);
    scores_.push_back(score);
  }
  void add_bytes(bool alphabet) {
    unsigned next_point = 256;
    for (unsigned b = 0; b < 256; ++b) {
      if (!alphabet) {
        char name[8];
        std::snprintf(name, sizeof(name), "<0x%02X>", b);
        token(name, 6, 0);
        continue;
      }
      const bool printable = (b > 0x20 && b < 0x7F) || (b > 0xA0 && b != 0xAD);
      const unsigned c = printable ? b : next_point++;
      std::string s;
      if (c >= 0x80) s += static_cast<char>(0xC0 | c >> 6);
      s += static_cast<char>(c >= 0x80 ? 0x80 | (c & 0x3F) : c);
      token(s, 1, 0);
    }
  }
  void records() {
    while (const unsigned kind = next()) {
      const size_t length = std::min<size_t>(next() & 31, rest_.size());
      const std::string bytes(rest_.substr(0, length));
      rest_.remove_prefix(length);
      if (kind < 128) {
        token(bytes, kind & 7, -static_cast<double>(kind >> 3));
      } else if (kind < 192) {
        merges_.push_back(bytes);
        // Merges that hold keep the target alive: also the token that this one makes.
        const size_t space = bytes.find(' ', 1);
        if ((kind & 1) && space != std::string::npos) {
          token(bytes.substr(0, space) + bytes.substr(space + 1), 1, 0);
        }
      } else {
        constexpr const char* kKeys[] = {"bos_token_id", "eos_token_id", "unknown_token_id",
                                         "eot_token_id"};
        source.values[std::string("tokenizer.ggml.") + kKeys[kind & 3]] =
            static_cast<uint64_t>(length * (1 + (kind >> 2 & 15)));
      }
    }
  }

  std::string_view rest_;
  std::vector<std::string> tokens_, merges_;
  std::vector<int64_t> types_;
  std::vector<double> scores_;
};

inline void fuzz_tokenizer(const char* model, const uint8_t* data, size_t size) {
  const TokenizerInput input(model, data, size);
  auto made = Tokenizer::make(input.source);
  if (!made.ok()) {
    require(!made.error().text.empty() && made.error().code != ErrorCode::internal);
    return;
  }
  const Tokenizer& t = **made;
  for (int mode = 0; mode < 4; ++mode) {
    const auto ids = t.encode(input.text, {(mode & 1) != 0, (mode & 2) != 0});
    for (bool special : {false, true}) {
      Detokenizer stream(t, special);
      std::string joined;
      for (TokenId id : ids) {
        require(id >= 0 && id < t.size());
        const std::string part = stream.push(id);
        require(replace_invalid_utf8(part) == part);
        joined += part;
      }
      joined += stream.finish();
      require(joined == replace_invalid_utf8(t.decode(ids, special)));
    }
  }
  for (TokenId id : {-1, 0, t.size() - 1, t.size()}) {
    (void)t.piece(id, true);
    (void)t.raw(id);
    (void)t.ends_generation(id);
  }
}

}  // namespace gyre::text
