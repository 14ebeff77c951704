// Finds the texts of special tokens in a text.
//
// Longer tokens are taken first over the whole text, then shorter ones in what is left; among
// equal ones the leftmost first. Linear in the text for the vocabularies in use.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/vocab.h"

namespace gyre::text {

// A stretch of text, or a special token (id >= 0).
struct Fragment {
  std::string_view text;
  TokenId id = -1;
};

class SpecialTokens {
 public:
  void build(const Vocab& vocab);
  // `all`: control, unknown and user-defined tokens; otherwise user-defined ones only.
  std::vector<Fragment> partition(std::string_view text, bool all) const;

 private:
  struct Special {
    std::string_view text;  // into the vocabulary
    TokenId id;
    uint32_t rank;  // order of precedence
    bool user_defined;
    bool swallows_space;
  };
  // The longest admitted token shorter than `below` that starts here, or -1.
  int32_t longest_at(std::string_view text, size_t pos, size_t below, bool all) const;
  void take(std::string_view text, std::vector<uint64_t> found, std::vector<int32_t>& taken,
            bool all) const;

  std::vector<Special> specials_;      // sorted by text
  std::vector<uint32_t> by_rank_;      // rank -> index in specials_
  std::array<uint32_t, 257> first_{};  // range of each first byte
  std::bitset<65536> starts_;          // first two bytes; a token of one byte sets all its pairs
  bool any_user_defined_ = false;
};

}  // namespace gyre::text
