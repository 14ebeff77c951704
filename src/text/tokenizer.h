// Text to token ids and back, from the vocabulary in a model's metadata.
//
// Two families: SentencePiece-style ("llama": scores, byte fallback, add-prefix rules) and
// byte-level BPE ("gpt2": merges and a pre-tokenizer pattern chosen by name). A name that Gyre does
// not know is refused by name. Immutable after make(); safe to use from any thread.
// Input is bytes; invalid UTF-8 is tokenized as the model's family does, never rejected.
// Time is linear in the input (times a logarithm), also for one repeated character.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "loaders/weight_source.h"

namespace gyre::text {

using TokenId = int32_t;

struct EncodeOptions {
  bool add_special = true;    // BOS/EOS as the model's metadata says
  bool parse_special = true;  // special tokens' texts become their ids; otherwise they are text
};

class Tokenizer {
 public:
  static Result<std::unique_ptr<Tokenizer>> make(const loaders::WeightSource& source);
  virtual ~Tokenizer() = default;

  virtual std::vector<TokenId> encode(std::string_view text, EncodeOptions options = {}) const = 0;

  // The bytes one token stands for; may end or start inside a UTF-8 code point. Special (control)
  // tokens give "" unless `special`. Ids out of range give "".
  virtual std::string piece(TokenId id, bool special = false) const = 0;
  // The whole text; a leading space that encode() added is taken off again.
  virtual std::string decode(const std::vector<TokenId>& ids, bool special = false) const = 0;
  // The vocabulary's own spelling ("▁the", "Ġthe", "<0x0A>"), for tables.
  virtual std::string_view raw(TokenId id) const = 0;

  virtual int32_t size() const = 0;
  virtual TokenId bos() const = 0;  // -1: none
  virtual TokenId eos() const = 0;
  virtual bool is_special(TokenId id) const = 0;
  // EOS, EOT and the like: generation ends here.
  virtual bool ends_generation(TokenId id) const = 0;
  virtual std::string_view family() const = 0;  // "llama" or "gpt2"
  // encode() puts a space before the text, decode() takes one off again.
  virtual bool adds_space_prefix() const = 0;
};

}  // namespace gyre::text
