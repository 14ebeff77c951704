#include "text/detokenizer.h"

#include "text/unicode.h"

namespace gyre::text {

std::string Detokenizer::push(TokenId id) {
  std::string bytes = tokenizer_.piece(id, special_);
  if (at_start_ && id >= 0 && id < tokenizer_.size() && !tokenizer_.is_special(id)) {
    at_start_ = false;
    if (!bytes.empty() && bytes[0] == ' ') bytes.erase(0, 1);
  }
  pending_ += bytes;
  std::string out;
  take_valid_utf8(pending_, false, out);
  return out;
}

std::string Detokenizer::finish() {
  std::string out;
  take_valid_utf8(pending_, true, out);
  return out;
}

std::string replace_invalid_utf8(std::string bytes) {
  std::string out;
  take_valid_utf8(bytes, true, out);
  return out;
}

}  // namespace gyre::text
