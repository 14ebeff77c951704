// Remembers the tokens of words within one encode() call: natural text repeats its words.
//
// Words are views of memory that must outlive the cache. Bounded: when full it stops learning.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "text/vocab.h"

namespace gyre::text {

class WordCache {
 public:
  // The ids of `word`, appended to `out` by `encode` the first time.
  template <class Encode>
  void get(std::string_view word, std::vector<TokenId>& out, Encode encode) {
    if (word.size() > kMaxWord) return encode(word, out);
    if (2 * used_ >= slots_.size() && slots_.size() < kMaxSlots) grow();
    const uint64_t hash = hash_bytes(word.data(), word.size());
    const size_t mask = slots_.size() - 1;
    size_t i = hash & mask;
    for (; slots_[i].size != 0; i = (i + 1) & mask) {
      const Slot& s = slots_[i];
      if (s.tag == static_cast<uint32_t>(hash >> 32) && s.size == word.size() &&
          std::memcmp(s.word, word.data(), word.size()) == 0) {
        out.insert(out.end(), ids_.begin() + s.first, ids_.begin() + s.first + s.count);
        return;
      }
    }
    const size_t before = out.size();
    encode(word, out);
    if (2 * used_ >= slots_.size()) return;
    ++used_;
    slots_[i] = {word.data(), static_cast<uint32_t>(hash >> 32), static_cast<uint32_t>(ids_.size()),
                 static_cast<uint16_t>(word.size()), static_cast<uint16_t>(out.size() - before)};
    ids_.insert(ids_.end(), out.begin() + static_cast<ptrdiff_t>(before), out.end());
  }

 private:
  static constexpr size_t kMaxWord = 64;
  static constexpr size_t kMaxSlots = size_t{1} << 17;
  struct Slot {
    const char* word = nullptr;
    uint32_t tag = 0, first = 0;
    uint16_t size = 0, count = 0;
  };

  void grow() {
    std::vector<Slot> old(slots_.empty() ? 256 : slots_.size() * 4);
    old.swap(slots_);
    const size_t mask = slots_.size() - 1;
    for (const Slot& s : old) {
      if (s.size == 0) continue;
      size_t i = hash_bytes(s.word, s.size) & mask;
      while (slots_[i].size != 0) i = (i + 1) & mask;
      slots_[i] = s;
    }
  }

  std::vector<Slot> slots_;
  std::vector<TokenId> ids_;
  size_t used_ = 0;
};

}  // namespace gyre::text
