// Token ids to text as they arrive, whole code points only.
//
// One object per stream; not shared between threads. All that push() and finish() return, joined,
// is the tokenizer's decode() of the same ids with each invalid sequence replaced by U+FFFD.
#pragma once

#include <string>

#include "text/tokenizer.h"

namespace gyre::text {

class Detokenizer {
 public:
  // `special`: control tokens are shown. `continues`: the ids continue a text, so a leading space
  // belongs to them and stays.
  explicit Detokenizer(const Tokenizer& tokenizer, bool special = false, bool continues = false)
      : tokenizer_(tokenizer),
        special_(special),
        at_start_(!continues && tokenizer.adds_space_prefix()) {}

  // The text that became complete; keeps at most 3 bytes of an unfinished code point back.
  std::string push(TokenId id);
  // What is left; an unfinished code point becomes U+FFFD.
  std::string finish();

 private:
  const Tokenizer& tokenizer_;
  bool special_;
  bool at_start_;
  std::string pending_;
};

// A copy of `bytes` with each maximal invalid part replaced by U+FFFD.
std::string replace_invalid_utf8(std::string bytes);

}  // namespace gyre::text
