// The vocabulary of a model: token texts, kinds, end-of-generation set, lookup by text.
//
// Owns a copy of all texts in one block; lookup is one open-addressing table, so that loading
// 262 144 tokens takes milliseconds. Immutable after make().
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "loaders/weight_source.h"
#include "text/tokenizer.h"

namespace gyre::text {

// Bits; names that the oracle forces (EOG, fill-in-the-middle) can add kControl to another kind.
enum TokenKind : uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 4,
  kUserDefined = 8,
  kUnused = 16,
  kByte = 32,
  kSwallowsSpace = 64,  // white space after it belongs to it
};

// The replacement of a space in SentencePiece texts, U+2581.
inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

uint64_t hash_bytes(const char* data, size_t size);

class Vocab {
 public:
  // What a key that is missing means.
  struct Defaults {
    TokenId bos = -1, eos = -1, unknown = -1;
    bool add_bos = false;
    bool needs_scores = false;  // and token types
  };
  static Result<Vocab> make(const loaders::WeightSource& source, const Defaults& defaults);

  int32_t size() const { return static_cast<int32_t>(offsets_.size()) - 1; }
  bool has(TokenId id) const { return id >= 0 && id < size(); }
  std::string_view text(TokenId id) const {
    return {texts_.data() + offsets_[id], offsets_[id + 1] - offsets_[id]};
  }
  uint8_t kind(TokenId id) const { return kinds_[id]; }
  // Ascending order of merging: a higher score comes first. Only with needs_scores.
  uint32_t order(TokenId id) const { return orders_[id]; }
  TokenId find(std::string_view text) const;
  // The token of one byte as "<0xXX>", -1: none.
  TokenId find_byte(uint8_t byte) const;

  TokenId bos() const { return bos_; }
  TokenId eos() const { return eos_; }
  TokenId unknown() const { return unknown_; }
  bool add_bos() const { return add_bos_; }
  bool add_eos() const { return add_eos_; }
  bool ends_generation(TokenId id) const;
  bool is_special(TokenId id) const { return has(id) && (kinds_[id] & (kControl | kUnknown)); }

 private:
  Status read_texts(const loaders::WeightSource& source);
  Status read_kinds(const loaders::WeightSource& source, bool required);
  Status read_scores(const loaders::WeightSource& source);
  Status read_ids(const loaders::WeightSource& source, const Defaults& defaults);
  void force_control(TokenId id) { kinds_[id] |= kControl; }
  void add_end(TokenId id);
  TokenId first_of(std::initializer_list<std::string_view> names, TokenId known);
  void find_ends(TokenId eot, TokenId eom, TokenId pad, TokenId repository, TokenId separator);
  void correct_ends();
  void mark_space_swallowers(const loaders::WeightSource& source);

  struct Slot {
    uint32_t tag = 0;
    TokenId id = -1;
  };
  std::string texts_;
  std::vector<uint32_t> offsets_;
  std::vector<uint8_t> kinds_;
  std::vector<uint32_t> orders_;
  std::vector<Slot> slots_;  // a power of two, at most half full
  std::vector<TokenId> ends_;
  TokenId bos_ = -1, eos_ = -1, unknown_ = -1;
  bool add_bos_ = false, add_eos_ = false;
};

// The array of strings behind `key`; a missing key or another type is an error.
Result<const std::vector<std::string>*> string_array(const loaders::WeightSource& source,
                                                     std::string_view key);

}  // namespace gyre::text
