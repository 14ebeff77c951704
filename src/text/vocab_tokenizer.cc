#include "text/vocab_tokenizer.h"

namespace gyre::text {

VocabTokenizer::VocabTokenizer(Vocab vocab) : vocab_(std::move(vocab)) {
  specials_.build(vocab_);
}

std::vector<TokenId> VocabTokenizer::encode(std::string_view text, EncodeOptions options) const {
  std::vector<TokenId> out;
  if (options.add_special && vocab_.add_bos()) out.push_back(vocab_.bos());
  encode_fragments(specials_.partition(text, options.parse_special), out);
  if (options.add_special && vocab_.add_eos()) out.push_back(vocab_.eos());
  return out;
}

std::string VocabTokenizer::piece(TokenId id, bool special) const {
  if (!vocab_.has(id)) return {};
  const uint8_t kind = vocab_.kind(id);
  const std::string_view text = vocab_.text(id);
  if (kind & (kControl | kUnknown)) return special ? std::string(text) : std::string();
  if (kind & kUserDefined) return std::string(text);
  if (kind & kNormal) return normal_piece(text);
  if (!(kind & kByte)) return {};
  // "<0xXX>"; another spelling stands for itself.
  const auto digit = [](char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
  };
  if (text.size() != 6 || text.substr(0, 3) != "<0x" || text[5] != '>' || digit(text[3]) < 0 ||
      digit(text[4]) < 0) {
    return std::string(text);
  }
  return std::string(1, static_cast<char>(digit(text[3]) * 16 + digit(text[4])));
}

std::string VocabTokenizer::decode(const std::vector<TokenId>& ids, bool special) const {
  std::string out;
  bool at_start = adds_space_prefix();
  for (TokenId id : ids) {
    std::string bytes = piece(id, special);
    if (at_start && vocab_.has(id) && !is_special(id)) {
      at_start = false;
      if (!bytes.empty() && bytes[0] == ' ') bytes.erase(0, 1);
    }
    out += bytes;
  }
  return out;
}

std::string_view VocabTokenizer::raw(TokenId id) const {
  return vocab_.has(id) ? vocab_.text(id) : std::string_view();
}

void append_marked(std::string& out, std::string_view text) {
  out.reserve(out.size() + text.size() + text.size() / 2);
  for (size_t pos = 0; pos < text.size();) {
    const size_t space = std::min(text.find(' ', pos), text.size());
    out.append(text, pos, space - pos);
    if (space < text.size()) out += kSpaceMark;
    pos = space + 1;
  }
}

std::string unmark(std::string_view text) {
  std::string out;
  for (size_t pos = 0; pos <= text.size();) {
    const size_t mark = std::min(text.find(kSpaceMark, pos), text.size());
    out.append(text, pos, mark - pos);
    if (mark < text.size()) out += ' ';
    pos = mark == text.size() ? mark + 1 : mark + kSpaceMark.size();
  }
  return out;
}

SpaceCuts::SpaceCuts(const Vocab& vocab) {
  for (TokenId id = 0; id < vocab.size(); ++id) {
    const std::string_view text = vocab.text(id);
    for (size_t pos = text.find(kSpaceMark, 1); pos < text.size();
         pos = text.find(kSpaceMark, pos + 1)) {
      joined_[static_cast<unsigned char>(text[pos - 1])] = true;
    }
  }
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::make(const loaders::WeightSource& source) {
  GYRE_ASSIGN(const std::string model, source.get_string("tokenizer.ggml.model"));
  if (model == "llama") return make_sentencepiece(source);
  if (model == "gpt2" || model == "gemma4") return make_bpe(source, model);
  return fail(ErrorCode::unsupported, "tokenizer.ggml.model", model, "llama, gpt2 or gemma4");
}

}  // namespace gyre::text
