// The pre-tokenizers that GGUF files name in tokenizer.ggml.pre, and how each family behaves.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace gyre::text {

struct PreTokenizer {
  std::vector<std::string_view> patterns;
  bool whole_words = false;  // a word that is a token stays whole, whatever the merges say
  bool add_bos = false;      // when the file does not say
  bool raw_utf8 = false;     // spaces as U+2581 and <0xXX> bytes in place of the byte alphabet
};

// Unknown names are refused with the list of known ones.
Result<PreTokenizer> find_pre_tokenizer(std::string_view name);

std::vector<std::string_view> pre_tokenizer_names();

}  // namespace gyre::text
