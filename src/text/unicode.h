// Code points: classes, lenient UTF-8 decoding, and replacement of invalid sequences.
//
// The classes come from a table of Unicode 15.1 in this repository, never from a library of the
// machine: the same text must give the same tokens everywhere. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace gyre::text {

enum class CharClass : uint8_t { other, letter, number, mark, punctuation, symbol, space };

// General category reduced to its first letter; `space` is the White_Space property.
CharClass char_class(uint32_t code_point);

struct CodePoint {
  uint32_t value;
  uint32_t bytes;  // consumed, 1..4
  bool valid;      // strictly valid UTF-8
};

inline constexpr uint32_t kReplacement = 0xFFFD;

// The code point at text[pos], pos < text.size(). As tokenizers read it: overlong forms and
// surrogates are taken at face value (valid = false); anything else that is broken, or above
// U+10FFFF, is one byte that stands for U+FFFD.
CodePoint decode_lenient(std::string_view text, size_t pos);

void append_utf8(std::string& out, uint32_t code_point);

// Length of the UTF-8 sequence that this first byte announces; 1 for continuation bytes.
inline uint32_t announced_length(unsigned char first) {
  return first < 0xC0 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

// Moves the complete part of `bytes` to `out`, each maximal invalid part as one U+FFFD; keeps a
// possibly unfinished code point (at most 3 bytes) in `bytes`, unless `final`.
void take_valid_utf8(std::string& bytes, bool final, std::string& out);

}  // namespace gyre::text
