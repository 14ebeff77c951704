// SentencePiece-style tokenizer: characters are merged by the scores of the tokens they form.
#include <array>

#include "text/merge.h"
#include "text/unicode.h"
#include "text/vocab_tokenizer.h"
#include "text/word_cache.h"

namespace gyre::text {
namespace {

constexpr size_t kMaxStretch = size_t{1} << 30;  // symbols count bytes in 32 bits

class SentencePiece final : public VocabTokenizer {
 public:
  SentencePiece(Vocab vocab, bool space_prefix)
      : VocabTokenizer(std::move(vocab)), cuts_(vocab_), space_prefix_(space_prefix) {
    for (size_t b = 0; b < 256; ++b) {
      const char byte = static_cast<char>(b);
      bytes_[b] = vocab_.find_byte(static_cast<uint8_t>(b));
      if (bytes_[b] < 0) bytes_[b] = vocab_.find({&byte, 1});
      if (bytes_[b] < 0) bytes_[b] = vocab_.unknown();
    }
  }
  std::string_view family() const override { return "llama"; }
  bool adds_space_prefix() const override { return space_prefix_; }

 protected:
  void encode_fragments(const std::vector<Fragment>& fragments,
                        std::vector<TokenId>& out) const override {
    bool after_special = true;
    for (const Fragment& f : fragments) {
      if (f.id >= 0) {
        out.push_back(f.id);
      } else {
        encode_text(f.text, space_prefix_ && after_special, out);
      }
      after_special = f.id >= 0;
    }
  }

  std::string normal_piece(std::string_view text) const override { return unmark(text); }

 private:
  struct Work {
    Merger merger;
    std::vector<Symbol> symbols;
  };

  void encode_text(std::string_view text, bool prefix, std::vector<TokenId>& out) const {
    std::string marked;
    if (prefix) marked += kSpaceMark;
    append_marked(marked, text);
    const std::string_view all = marked;
    Work work;
    WordCache cache;
    size_t begin = 0, before = 0;  // of the word, of the character before `pos`
    for (size_t pos = 0; pos < all.size();) {
      const size_t size = std::min<size_t>(announced_length(static_cast<unsigned char>(all[pos])),
                                           all.size() - pos);
      const bool mark = all.substr(pos, size) == kSpaceMark;
      const bool cut = (mark && pos > begin && cuts_.allowed_after(all[pos - 1]) &&
                        all.substr(before, pos - before) != kSpaceMark) ||
                       pos - begin > kMaxStretch;
      if (cut) {
        word(all.substr(begin, pos - begin), work, cache, out);
        begin = pos;
      }
      before = pos;
      pos += size;
    }
    word(all.substr(begin), work, cache, out);
  }

  void word(std::string_view text, Work& work, WordCache& cache, std::vector<TokenId>& out) const {
    cache.get(text, out,
              [&](std::string_view w, std::vector<TokenId>& ids) { merge(w, work, ids); });
  }

  void merge(std::string_view text, Work& work, std::vector<TokenId>& out) const {
    work.symbols.clear();
    for (size_t pos = 0; pos < text.size();) {
      const size_t size = std::min<size_t>(announced_length(static_cast<unsigned char>(text[pos])),
                                           text.size() - pos);
      work.symbols.push_back({static_cast<uint32_t>(pos), static_cast<uint32_t>(size), -1});
      pos += size;
    }
    work.merger.run(work.symbols, [&](const Symbol& a, const Symbol& b) {
      const TokenId id = vocab_.find(text.substr(a.begin, size_t{a.size} + b.size));
      return id < 0 ? Merge{} : Merge{vocab_.order(id), id};
    });
    for (const Symbol& s : work.symbols) {
      const TokenId id = s.id >= 0 ? s.id : vocab_.find(text.substr(s.begin, s.size));
      if (id >= 0) {
        out.push_back(id);
        continue;
      }
      for (char c : text.substr(s.begin, s.size)) {
        const TokenId byte = bytes_[static_cast<unsigned char>(c)];
        if (byte >= 0) out.push_back(byte);
      }
    }
  }

  SpaceCuts cuts_;
  bool space_prefix_;
  std::array<TokenId, 256> bytes_;  // byte fallback; -1 only without an unknown token
};

}  // namespace

Result<std::unique_ptr<Tokenizer>> make_sentencepiece(const loaders::WeightSource& source) {
  Vocab::Defaults defaults;
  defaults.bos = 1, defaults.eos = 2, defaults.unknown = 0;
  defaults.add_bos = true;
  defaults.needs_scores = true;
  GYRE_ASSIGN(Vocab vocab, Vocab::make(source, defaults));
  GYRE_ASSIGN(const bool prefix, source.get_bool_or("tokenizer.ggml.add_space_prefix", true));
  return std::unique_ptr<Tokenizer>(std::make_unique<SentencePiece>(std::move(vocab), prefix));
}

}  // namespace gyre::text
