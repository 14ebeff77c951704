// Pre-tokenizer patterns: a small matcher for the regular expressions that tokenizers use.
//
// The syntax is the part of regular expressions that those patterns need: alternatives in order of
// preference, sets ([..], [^..], \s \S \d \r \n \p{L} \p{N} \p{M} \p{P} \p{S} \p{Han}, ranges,
// [..&&[^..]]), greedy ? * + {n} {n,m} on a set, (?:..) and (?:..)? of fixed texts, (?=set),
// (?!set) and $. Patterns are constants of Gyre; a bad one is a failed check at make().
// A match may not be empty. The time for a whole text is linear for every pattern in use.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/function_ref.h"
#include "base/result.h"
#include "text/unicode.h"

namespace gyre::text {

// One code point of a text: value, class and byte length in 32 bits. White space outside ASCII
// has the value 0x0B, so that sets see it only as \s.
class Cell {
 public:
  Cell() = default;
  Cell(uint32_t value, CharClass cls, uint32_t bytes)
      : bits_(value | static_cast<uint32_t>(cls) << 21 | bytes << 24) {}
  uint32_t value() const { return bits_ & 0x1FFFFF; }
  uint32_t cls() const { return bits_ >> 21 & 7; }
  uint32_t bytes() const { return bits_ >> 24; }

 private:
  uint32_t bits_ = 0;
};

// The cells of `text`. When it is not strictly valid UTF-8, `repaired` receives the text with each
// code point written anew (U+FFFD for broken bytes) and is to be used in its place.
std::vector<Cell> make_cells(std::string_view text, std::string& repaired);

struct CharSet {
  uint64_t ascii[2] = {0, 0};
  uint8_t classes = 0;  // for values above 127
  bool negated = false;
  std::vector<std::pair<uint32_t, uint32_t>> ranges;   // first, last; above 127
  std::vector<std::pair<uint32_t, uint32_t>> without;  // taken out, whatever else holds
  bool has(Cell c) const;
};

class Splitter {
 public:
  // Patterns are applied one after another: each splits the pieces of the one before into its
  // matches and the text between them.
  static Result<Splitter> make(const std::vector<std::string_view>& patterns);

  // Calls `piece(first cell, end cell)` for every piece, in order; none is empty.
  void split(const std::vector<Cell>& cells, FunctionRef<void(size_t, size_t)> piece) const;

 private:
  friend class PatternParser;
  struct Item;
  using Sequence = std::vector<Item>;
  enum class Kind : uint8_t { set, group, ahead, not_ahead, end };
  struct Item {
    Kind kind = Kind::set;
    uint32_t set = 0;
    uint32_t min = 1, max = 1;
    std::vector<Sequence> alternatives;
  };
  struct Pattern {
    std::vector<Sequence> alternatives;
    // One alternative that begins with set+: after a failure its whole run of the set fails too.
    bool skips_runs = false;
  };
  struct Text {
    const Cell* cells;
    size_t end;
  };

  bool match(Text text, const Sequence& items, size_t i, size_t pos, size_t& end) const;
  size_t match_any(Text text, const Pattern& pattern, size_t pos) const;
  void run(Text text, size_t stage, size_t begin, FunctionRef<void(size_t, size_t)> piece) const;

  std::vector<CharSet> sets_;
  std::vector<Pattern> patterns_;
};

}  // namespace gyre::text
