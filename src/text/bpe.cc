// Byte-level BPE: the text is split by the model's pre-tokenizer, then bytes are merged by rank.
#include <array>
#include <bit>
#include <limits>

#include "text/merge.h"
#include "text/pretokenizers.h"
#include "text/splitter.h"
#include "text/unicode.h"
#include "text/vocab_tokenizer.h"
#include "text/word_cache.h"

namespace gyre::text {
namespace {

constexpr std::string_view kMerges = "tokenizer.ggml.merges";
constexpr size_t kMaxMerges = size_t{1} << 26;

// GPT-2's alphabet: the code point that spells each byte. Printable Latin-1 bytes are themselves,
// the others follow from U+0100 on.
struct ByteAlphabet {
  std::array<uint16_t, 256> of_byte;
  std::array<int16_t, 512> to_byte;
  ByteAlphabet() {
    to_byte.fill(-1);
    uint16_t next = 256;
    for (uint16_t b = 0; b < 256; ++b) {
      const bool printable = (b > 0x20 && b < 0x7F) || (b > 0xA0 && b != 0xAD);
      of_byte[b] = printable ? b : next++;
      to_byte[of_byte[b]] = static_cast<int16_t>(b);
    }
  }
};
const ByteAlphabet kAlphabet;

// (left, right) -> merged token and rank.
class MergeTable {
 public:
  Status build(const std::vector<std::string>& merges, const Vocab& vocab);
  Merge find(TokenId left, TokenId right) const {
    if (left < 0 || right < 0) return {};
    const uint64_t key = key_of(left, right);
    for (size_t i = start(key);; i = (i + 1) & mask_) {
      if (slots_[i].key == key) return {slots_[i].rank, slots_[i].id};
      if (slots_[i].key == kEmpty) return {};
    }
  }

 private:
  static constexpr uint64_t kEmpty = std::numeric_limits<uint64_t>::max();
  struct Slot {
    uint64_t key = kEmpty;
    uint32_t rank = 0;
    TokenId id = -1;
  };
  static uint64_t key_of(TokenId left, TokenId right) {
    return static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
  }
  size_t start(uint64_t key) const {
    key *= 0x9E3779B97F4A7C15u;
    return (key ^ key >> 32) & mask_;
  }
  std::vector<Slot> slots_;
  size_t mask_ = 0;
};

Status MergeTable::build(const std::vector<std::string>& merges, const Vocab& vocab) {
  if (merges.size() > kMaxMerges) {
    return fail(ErrorCode::bad_file, kMerges, std::to_string(merges.size()) + " merges",
                "at most 67108864");
  }
  slots_.resize(std::bit_ceil(merges.size() + merges.size() / 3 + 2));
  mask_ = slots_.size() - 1;
  std::string merged;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const std::string& m = merges[rank];
    const size_t space = m.find(' ', 1);  // a first part may begin with a space
    const auto bad = [&](const char* expected) {
      return fail(ErrorCode::bad_file, std::string(kMerges) + "[" + std::to_string(rank) + "]",
                  "'" + m + "'", expected);
    };
    if (space == std::string::npos) return bad("two tokens with a space between");
    const std::string_view left = std::string_view(m).substr(0, space);
    const std::string_view right = std::string_view(m).substr(space + 1);
    merged.assign(left).append(right);
    const TokenId a = vocab.find(left), b = vocab.find(right), id = vocab.find(merged);
    if (a < 0 || b < 0 || id < 0) return bad("both parts and the whole in tokenizer.ggml.tokens");
    const uint64_t key = key_of(a, b);
    size_t i = start(key);
    while (slots_[i].key != key && slots_[i].key != kEmpty) i = (i + 1) & mask_;
    if (slots_[i].key == kEmpty) slots_[i] = {key, static_cast<uint32_t>(rank), id};
  }
  return {};
}

class Bpe final : public VocabTokenizer {
 public:
  Bpe(Vocab vocab, MergeTable merges, Splitter splitter, const PreTokenizer& pre)
      : VocabTokenizer(std::move(vocab)),
        merges_(std::move(merges)),
        splitter_(std::move(splitter)),
        whole_words_(pre.whole_words),
        raw_utf8_(pre.raw_utf8) {
    if (raw_utf8_) cuts_ = std::make_unique<SpaceCuts>(vocab_);
    for (size_t b = 0; b < 256; ++b) {
      std::string spelled;
      append_utf8(spelled, kAlphabet.of_byte[b]);
      bytes_[b] = raw_utf8_ ? vocab_.find_byte(static_cast<uint8_t>(b)) : vocab_.find(spelled);
    }
  }
  std::string_view family() const override { return "gpt2"; }

 protected:
  void encode_fragments(const std::vector<Fragment>& fragments,
                        std::vector<TokenId>& out) const override {
    Work work;
    for (const Fragment& f : fragments) {
      if (f.id >= 0) {
        out.push_back(f.id);
      } else if (raw_utf8_) {
        std::string marked;
        append_marked(marked, f.text);
        encode_text(marked, work, out);
      } else {
        encode_text(f.text, work, out);
      }
    }
  }

  std::string normal_piece(std::string_view text) const override {
    if (raw_utf8_) return unmark(text);
    std::string out;
    for (size_t pos = 0; pos < text.size();) {
      const CodePoint c = decode_lenient(text, pos);
      const int16_t byte =
          c.value < kAlphabet.to_byte.size() ? kAlphabet.to_byte[c.value] : int16_t{-1};
      if (byte >= 0) {
        out.push_back(static_cast<char>(byte));
      } else {
        out.append(text, pos, c.bytes);  // not of the alphabet: stands for itself
      }
      pos += c.bytes;
    }
    return out;
  }

 private:
  struct Work {
    Merger merger;
    std::vector<Symbol> symbols;
    std::string spelled;
  };

  void encode_text(std::string_view text, Work& work, std::vector<TokenId>& out) const {
    // Symbols count bytes in 32 bits, cells take four bytes per code point.
    constexpr size_t kMaxStretch = size_t{1} << 28;
    for (; text.size() > kMaxStretch; text.remove_prefix(kMaxStretch)) {
      encode_stretch(text.substr(0, kMaxStretch), work, out);
    }
    encode_stretch(text, work, out);
  }

  void encode_stretch(std::string_view text, Work& work, std::vector<TokenId>& out) const {
    std::string repaired;
    const std::vector<Cell> cells = make_cells(text, repaired);
    if (!repaired.empty()) text = repaired;
    WordCache cache;
    const auto word = [&](std::string_view w) {
      cache.get(w, out, [&](std::string_view fresh, std::vector<TokenId>& ids) {
        encode_word(fresh, work, ids);
      });
    };
    size_t byte = 0;
    splitter_.split(cells, [&](size_t begin, size_t end) {
      size_t bytes = 0;
      for (size_t i = begin; i < end; ++i) bytes += cells[i].bytes();
      std::string_view piece = text.substr(byte, bytes);
      byte += bytes;
      for (size_t cut = raw_utf8_ ? next_cut(piece) : piece.size(); cut < piece.size();
           cut = next_cut(piece)) {
        word(piece.substr(0, cut));
        piece.remove_prefix(cut);
      }
      word(piece);
    });
  }

  // Where the next word of a text with marked spaces can be cut off.
  size_t next_cut(std::string_view text) const {
    for (size_t pos = text.find(kSpaceMark, 1); pos < text.size();
         pos = text.find(kSpaceMark, pos + 1)) {
      if (cuts_->allowed_after(text[pos - 1])) return pos;
    }
    return text.size();
  }

  void encode_word(std::string_view text, Work& work, std::vector<TokenId>& out) const {
    if (whole_words_ || raw_utf8_) {
      const TokenId whole = find_whole(text, work.spelled);
      if (whole >= 0) return out.push_back(whole);
    }
    work.symbols.clear();
    for (size_t pos = 0; pos < text.size();) {
      const unsigned char first = static_cast<unsigned char>(text[pos]);
      const size_t size =
          raw_utf8_ ? std::min<size_t>(announced_length(first), text.size() - pos) : 1;
      const TokenId id = raw_utf8_ ? vocab_.find(text.substr(pos, size)) : bytes_[first];
      work.symbols.push_back({static_cast<uint32_t>(pos), static_cast<uint32_t>(size), id});
      pos += size;
    }
    work.merger.run(work.symbols,
                    [&](const Symbol& a, const Symbol& b) { return merges_.find(a.id, b.id); });
    for (const Symbol& s : work.symbols) {
      if (s.id >= 0) {
        out.push_back(s.id);
      } else if (raw_utf8_) {
        for (char c : text.substr(s.begin, s.size)) {
          const TokenId byte = bytes_[static_cast<unsigned char>(c)];
          if (byte >= 0) out.push_back(byte);
        }
      }  // a byte that the vocabulary cannot spell is dropped, as the oracle does
    }
  }

  // The token that is the whole word: any for whole_words_, runs of newlines for raw_utf8_.
  TokenId find_whole(std::string_view text, std::string& spelled) const {
    if (raw_utf8_)
      return text.find_first_not_of('\n') == std::string_view::npos ? vocab_.find(text) : -1;
    spelled.clear();
    for (char c : text) append_utf8(spelled, kAlphabet.of_byte[static_cast<unsigned char>(c)]);
    return vocab_.find(spelled);
  }

  MergeTable merges_;
  Splitter splitter_;
  std::unique_ptr<SpaceCuts> cuts_;
  bool whole_words_, raw_utf8_;
  std::array<TokenId, 256> bytes_;  // the token of each byte, or -1
};

}  // namespace

Result<std::unique_ptr<Tokenizer>> make_bpe(const loaders::WeightSource& source,
                                            const std::string& model) {
  GYRE_ASSIGN(std::string name, source.get_string_or("tokenizer.ggml.pre", "default"));
  if (model == "gemma4") name = model;
  GYRE_ASSIGN(const PreTokenizer pre, find_pre_tokenizer(name));
  GYRE_ASSIGN(Splitter splitter, Splitter::make(pre.patterns));
  GYRE_ASSIGN(const auto* merges, string_array(source, kMerges));
  Vocab::Defaults defaults;
  defaults.add_bos = pre.add_bos;
  GYRE_ASSIGN(Vocab vocab, Vocab::make(source, defaults));
  MergeTable table;
  GYRE_TRY(table.build(*merges, vocab));
  return std::unique_ptr<Tokenizer>(
      std::make_unique<Bpe>(std::move(vocab), std::move(table), std::move(splitter), pre));
}

}  // namespace gyre::text
