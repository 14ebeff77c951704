// What both families share: special tokens, BOS and EOS, decoding, tables.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/special_tokens.h"
#include "text/tokenizer.h"
#include "text/vocab.h"

namespace gyre::text {

class VocabTokenizer : public Tokenizer {
 public:
  // `vocab` moves in and special tokens are indexed here: views point into this object.
  explicit VocabTokenizer(Vocab vocab);

  std::vector<TokenId> encode(std::string_view text, EncodeOptions options) const override;
  std::string piece(TokenId id, bool special) const override;
  std::string decode(const std::vector<TokenId>& ids, bool special) const override;
  std::string_view raw(TokenId id) const override;
  int32_t size() const override { return vocab_.size(); }
  TokenId bos() const override { return vocab_.bos(); }
  TokenId eos() const override { return vocab_.eos(); }
  bool is_special(TokenId id) const override { return vocab_.is_special(id); }
  bool ends_generation(TokenId id) const override { return vocab_.ends_generation(id); }
  bool adds_space_prefix() const override { return false; }

 protected:
  // Appends the tokens of the texts of `fragments`, and their special tokens, to `out`.
  virtual void encode_fragments(const std::vector<Fragment>& fragments,
                                std::vector<TokenId>& out) const = 0;
  // The bytes of a token of kind normal.
  virtual std::string normal_piece(std::string_view text) const = 0;

  Vocab vocab_;

 private:
  SpecialTokens specials_;
};

// `text` with each space as U+2581 and back.
void append_marked(std::string& out, std::string_view text);
std::string unmark(std::string_view text);

// Bytes after which some token of the vocabulary continues with U+2581. Between any other byte and
// a U+2581 no merge can happen, so a text may be cut there.
class SpaceCuts {
 public:
  explicit SpaceCuts(const Vocab& vocab);
  bool allowed_after(char last) const { return !joined_[static_cast<unsigned char>(last)]; }

 private:
  std::array<bool, 256> joined_{};
};

Result<std::unique_ptr<Tokenizer>> make_sentencepiece(const loaders::WeightSource& source);
Result<std::unique_ptr<Tokenizer>> make_bpe(const loaders::WeightSource& source,
                                            const std::string& model);

}  // namespace gyre::text
