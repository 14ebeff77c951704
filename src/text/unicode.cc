#include "text/unicode.h"

#include <array>
#include <cstring>
#include <memory>

namespace gyre::text {
namespace {

struct Range {
  uint32_t first, end;
  uint8_t cls;
};
constexpr Range kRanges[] = {
#include "text/unicode_classes.inl"
};

constexpr uint32_t kCodePoints = 0x110000;
// In .bss: pages of unassigned planes are never touched.
std::array<uint8_t, kCodePoints> class_table;

bool fill_table() {
  for (const Range& r : kRanges) std::memset(&class_table[r.first], r.cls, r.end - r.first);
  return true;
}

bool continues(std::string_view text, size_t pos) {
  return pos < text.size() && (static_cast<unsigned char>(text[pos]) & 0xC0) == 0x80;
}

uint32_t low6(char c) {
  return static_cast<unsigned char>(c) & 0x3F;
}

}  // namespace

CharClass char_class(uint32_t code_point) {
  static const bool filled = fill_table();
  return filled && code_point < kCodePoints ? static_cast<CharClass>(class_table[code_point])
                                            : CharClass::other;
}

CodePoint decode_lenient(std::string_view text, size_t pos) {
  const unsigned char b = static_cast<unsigned char>(text[pos]);
  if (b < 0x80) return {b, 1, true};
  const CodePoint broken{kReplacement, 1, false};
  if (b < 0xC0 || b >= 0xF8 || !continues(text, pos + 1)) return broken;
  uint32_t low = low6(text[pos + 1]);
  if (b < 0xE0) return {(b & 0x1Fu) << 6 | low, 2, b >= 0xC2};
  if (!continues(text, pos + 2)) return broken;
  low = low << 6 | low6(text[pos + 2]);
  if (b < 0xF0) {
    const uint32_t value = (b & 0x0Fu) << 12 | low;
    return {value, 3, value >= 0x800 && (value < 0xD800 || value > 0xDFFF)};
  }
  if (!continues(text, pos + 3)) return broken;
  const uint32_t value = (b & 0x07u) << 18 | low << 6 | low6(text[pos + 3]);
  if (value >= kCodePoints) return broken;
  return {value, 4, value >= 0x10000};
}

void append_utf8(std::string& out, uint32_t c) {
  const auto put = [&](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c < 0x80) return put(c);
  if (c < 0x800) {
    put(0xC0 | c >> 6);
  } else {
    if (c < 0x10000) {
      put(0xE0 | c >> 12);
    } else {
      put(0xF0 | c >> 18);
      put(0x80 | (c >> 12 & 0x3F));
    }
    put(0x80 | (c >> 6 & 0x3F));
  }
  put(0x80 | (c & 0x3F));
}

namespace {

// What may follow this first byte; {0, 0} for a byte that starts nothing.
struct SecondByte {
  unsigned char low, high;
};
SecondByte second_byte(unsigned char first) {
  if (first < 0xC2 || first > 0xF4) return {0, 0};
  if (first == 0xE0) return {0xA0, 0xBF};
  if (first == 0xED) return {0x80, 0x9F};
  if (first == 0xF0) return {0x90, 0xBF};
  if (first == 0xF4) return {0x80, 0x8F};
  return {0x80, 0xBF};
}

}  // namespace

void take_valid_utf8(std::string& bytes, bool final, std::string& out) {
  size_t pos = 0;
  while (pos < bytes.size()) {
    const unsigned char first = static_cast<unsigned char>(bytes[pos]);
    if (first < 0x80) {
      out.push_back(bytes[pos++]);
      continue;
    }
    const SecondByte second = second_byte(first);
    const size_t need = second.low == 0 ? 1 : announced_length(first);
    size_t have = 1;  // bytes that fit together
    while (have < need && pos + have < bytes.size()) {
      const unsigned char c = static_cast<unsigned char>(bytes[pos + have]);
      if (have == 1 ? c < second.low || c > second.high : (c & 0xC0) != 0x80) break;
      ++have;
    }
    if (second.low != 0 && have == need) {
      out.append(bytes, pos, need);
    } else if (second.low != 0 && pos + have == bytes.size() && !final) {
      break;  // the rest may come
    } else {
      append_utf8(out, kReplacement);
    }
    pos += have;
  }
  bytes.erase(0, pos);
}

}  // namespace gyre::text
