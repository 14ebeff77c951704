#include <algorithm>
#include <iterator>

#include "text/jinja/text_ops.h"
#include "text/unicode.h"

namespace gyre::text::jinja {
namespace {

struct CaseRun {
  uint32_t first, last;
  int stride, delta;
};
struct CaseFull {
  uint32_t code_point;
  uint32_t to[3];
};
#include "text/jinja/case_tables.inl"

template <size_t N, size_t M>
bool map_case(const CaseRun (&runs)[N], const CaseFull (&full)[M], uint32_t c, std::string* out) {
  const auto run = std::upper_bound(std::begin(runs), std::end(runs), c,
                                    [](uint32_t x, const CaseRun& r) { return x < r.first; });
  if (run != std::begin(runs)) {
    const CaseRun& r = *std::prev(run);
    if (c <= r.last && (c - r.first) % static_cast<uint32_t>(r.stride) == 0) {
      if (out != nullptr) append_utf8(*out, c + static_cast<uint32_t>(r.delta));
      return true;
    }
  }
  const auto entry =
      std::lower_bound(std::begin(full), std::end(full), c,
                       [](const CaseFull& f, uint32_t x) { return f.code_point < x; });
  if (entry == std::end(full) || entry->code_point != c || c == 0) return false;
  for (const uint32_t to : entry->to)
    if (out != nullptr && to != 0) append_utf8(*out, to);
  return true;
}

bool has_upper(uint32_t c, std::string* out = nullptr) {
  return map_case(kUpperRuns, kUpperFull, c, out);
}
bool has_lower(uint32_t c, std::string* out = nullptr) {
  return map_case(kLowerRuns, kLowerFull, c, out);
}

// Does not count for the end of a word: marks and the signs that stand inside of words.
bool case_ignorable(uint32_t c) {
  return char_class(c) == CharClass::mark || c == '\'' || c == '.' || c == ':' || c == 0xB7 ||
         c == 0x2019 || c == '^' || c == '`' || c == 0xAD;
}

// A capital sigma becomes the final form behind a cased letter, unless one follows.
bool final_sigma(std::string_view text, size_t pos, bool cased_before) {
  if (!cased_before) return false;
  for (size_t at = pos + 2; at < text.size();) {
    const CodePoint c = decode_lenient(text, at);
    if (!case_ignorable(c.value)) return !is_cased(c.value);
    at += c.bytes;
  }
  return true;
}

struct CaseWalk {
  std::string_view text;
  std::string out;
  size_t pos = 0;
  bool cased_before = false;

  bool more() const { return pos < text.size(); }
  CodePoint at() const { return decode_lenient(text, pos); }
  void keep(const CodePoint& c) { out.append(text, pos, c.bytes); }
  void lower(const CodePoint& c) {
    if (c.value == 0x3A3 && c.valid) {
      append_utf8(out, final_sigma(text, pos, cased_before) ? 0x3C2 : 0x3C3);
    } else if (!c.valid || !has_lower(c.value, &out)) {
      keep(c);
    }
  }
  void upper(const CodePoint& c) {
    if (!c.valid || !has_upper(c.value, &out)) keep(c);
  }
  void title(const CodePoint& c) {
    if (!c.valid || !map_case(kTitleRuns, kTitleFull, c.value, &out)) upper(c);
  }
  void step(const CodePoint& c) {
    if (!case_ignorable(c.value)) cased_before = is_cased(c.value);
    pos += c.bytes;
  }
};

}  // namespace

bool is_cased(uint32_t c) {
  return has_upper(c) || has_lower(c);
}

std::string upper(std::string_view text) {
  CaseWalk walk{text, {}};
  while (walk.more()) {
    const CodePoint c = walk.at();
    walk.upper(c);
    walk.step(c);
  }
  return walk.out;
}

std::string lower(std::string_view text) {
  CaseWalk walk{text, {}};
  while (walk.more()) {
    const CodePoint c = walk.at();
    walk.lower(c);
    walk.step(c);
  }
  return walk.out;
}

std::string capitalize(std::string_view text) {
  CaseWalk walk{text, {}};
  while (walk.more()) {
    const CodePoint c = walk.at();
    walk.pos == 0 ? walk.title(c) : walk.lower(c);
    walk.step(c);
  }
  return walk.out;
}

std::string swap_case(std::string_view text) {
  CaseWalk walk{text, {}};
  while (walk.more()) {
    const CodePoint c = walk.at();
    has_upper(c.value) ? walk.upper(c) : walk.lower(c);
    walk.step(c);
  }
  return walk.out;
}

std::string title_method(std::string_view text) {
  CaseWalk walk{text, {}};
  bool in_word = false;
  while (walk.more()) {
    const CodePoint c = walk.at();
    in_word ? walk.lower(c) : walk.title(c);
    in_word = is_cased(c.value);
    walk.step(c);
  }
  return walk.out;
}

std::string title_filter(std::string_view text) {
  const auto parts_words = [](uint32_t c) {
    return c == '-' || c == '(' || c == '{' || c == '[' || c == '<' || is_space(c);
  };
  std::string out;
  for (size_t pos = 0; pos < text.size();) {
    const CodePoint first = decode_lenient(text, pos);
    size_t end = pos + first.bytes;
    if (parts_words(first.value)) {
      out.append(text, pos, first.bytes);
      pos = end;
      continue;
    }
    while (end < text.size() && !parts_words(decode_lenient(text, end).value))
      end += decode_lenient(text, end).bytes;
    out += upper(text.substr(pos, first.bytes));
    out += lower(text.substr(pos + first.bytes, end - pos - first.bytes));
    pos = end;
  }
  return out;
}

}  // namespace gyre::text::jinja
