#include "text/splitter.h"

#include <algorithm>
#include <limits>

namespace gyre::text {
namespace {

constexpr uint32_t kUnbounded = std::numeric_limits<uint32_t>::max();

// The blocks that hold Han characters.
constexpr std::pair<uint32_t, uint32_t> kHan[] = {
    {0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF},
    {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F}, {0x2B820, 0x2CEAF},
    {0x2CEB0, 0x2EBEF}, {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F},
};

void add_ascii(CharSet& set, uint32_t c) {
  set.ascii[c >> 6] |= uint64_t{1} << (c & 63);
}

void add_range(CharSet& set, uint32_t first, uint32_t last) {
  for (uint32_t c = first; c <= last && c < 128; ++c) add_ascii(set, c);
  if (last >= 128) set.ranges.emplace_back(std::max(first, 128u), last);
}

void add_class(CharSet& set, CharClass cls) {
  set.classes |= uint8_t(1u << static_cast<unsigned>(cls));
  for (uint32_t c = 0; c < 128; ++c) {
    if (char_class(c) == cls) add_ascii(set, c);
  }
}

void negate(CharSet& set) {
  set.negated = !set.negated;
  set.ascii[0] = ~set.ascii[0];
  set.ascii[1] = ~set.ascii[1];
}

bool within(const std::vector<std::pair<uint32_t, uint32_t>>& ranges, uint32_t v) {
  for (const auto& [first, last] : ranges) {
    if (v >= first && v <= last) return true;
  }
  return false;
}

}  // namespace

bool CharSet::has(Cell c) const {
  const uint32_t v = c.value();
  if (v < 128) return ascii[v >> 6] >> (v & 63) & 1;
  if (!without.empty() && within(without, v)) return false;
  const bool in = (classes >> c.cls() & 1) || (!ranges.empty() && within(ranges, v));
  return in != negated;
}

std::vector<Cell> make_cells(std::string_view text, std::string& repaired) {
  std::vector<Cell> cells;
  cells.reserve(text.size());
  bool valid = true;
  for (size_t pos = 0; pos < text.size();) {
    const unsigned char b = static_cast<unsigned char>(text[pos]);
    if (b < 0x80) {
      cells.emplace_back(b, CharClass::other, 1);  // sets look ASCII up by value
      if (!valid) repaired += text[pos];
      ++pos;
      continue;
    }
    const CodePoint c = decode_lenient(text, pos);
    if (!c.valid && valid) {
      valid = false;
      repaired.assign(text, 0, pos);
    }
    uint32_t bytes = c.bytes;
    if (!valid) {
      const size_t before = repaired.size();
      append_utf8(repaired, c.value);
      bytes = static_cast<uint32_t>(repaired.size() - before);
    }
    const CharClass cls = char_class(c.value);
    const bool wide_space = cls == CharClass::space && c.value >= 128;
    cells.emplace_back(wide_space ? 0x0B : c.value, cls, bytes);
    pos += c.bytes;
  }
  return cells;
}

// Recursive descent over one pattern.
class PatternParser {
 public:
  using Item = Splitter::Item;
  using Kind = Splitter::Kind;
  PatternParser(std::string_view pattern, std::vector<CharSet>& sets) : p_(pattern), sets_(sets) {}

  std::vector<Splitter::Sequence> parse() {
    auto out = alternatives();
    if (at_ != p_.size()) ok_ = false;
    return out;
  }
  bool ok() const { return ok_; }

 private:
  bool eat(std::string_view what) {
    if (p_.substr(at_, what.size()) != what) return false;
    at_ += what.size();
    return true;
  }
  bool more() const { return at_ < p_.size(); }
  uint32_t literal() {
    const CodePoint c = decode_lenient(p_, at_);
    at_ += c.bytes;
    return c.value;
  }
  uint32_t keep(CharSet set) {
    sets_.push_back(std::move(set));
    return static_cast<uint32_t>(sets_.size() - 1);
  }

  std::vector<Splitter::Sequence> alternatives() {
    std::vector<Splitter::Sequence> out(1);
    while (more() && p_[at_] != ')') {
      if (eat("|")) {
        out.emplace_back();
      } else {
        out.back().push_back(item());
      }
    }
    return out;
  }

  Item item() {
    Item out;
    if (eat("(?=") || eat("(?!")) {
      out.kind = p_[at_ - 1] == '=' ? Kind::ahead : Kind::not_ahead;
      out.set = keep(set());
      ok_ = ok_ && eat(")");
    } else if (eat("(?:")) {
      out.kind = Kind::group;
      out.alternatives = alternatives();
      ok_ = ok_ && eat(")");
      if (eat("?")) out.min = 0;
    } else if (eat("$")) {
      out.kind = Kind::end;
    } else {
      out.set = keep(set());
      quantifier(out);
    }
    return out;
  }

  void quantifier(Item& item) {
    if (eat("?")) {
      item.min = 0;
    } else if (eat("*")) {
      item.min = 0, item.max = kUnbounded;
    } else if (eat("+")) {
      item.max = kUnbounded;
    } else if (eat("{")) {
      item.min = number();
      item.max = eat(",") ? number() : item.min;
      ok_ = ok_ && eat("}");
    }
  }
  uint32_t number() {
    uint32_t n = 0;
    while (more() && p_[at_] >= '0' && p_[at_] <= '9') n = n * 10 + uint32_t(p_[at_++] - '0');
    return n;
  }

  CharSet set() {
    CharSet out;
    if (!eat("[")) {
      element(out, false);
      return out;
    }
    const bool negated = eat("^");
    while (more() && p_[at_] != ']' && p_.substr(at_, 2) != "&&") element(out, true);
    if (negated) negate(out);
    if (eat("&&[^")) without(out);
    ok_ = ok_ && eat("]");
    return out;
  }

  void without(CharSet& out) {
    CharSet taken;
    while (more() && p_[at_] != ']') element(taken, true);
    ok_ = ok_ && eat("]") && taken.classes == 0;
    out.ascii[0] &= ~taken.ascii[0];
    out.ascii[1] &= ~taken.ascii[1];
    out.without = taken.ranges;
  }

  void element(CharSet& out, bool inside) {
    if (!more()) {
      ok_ = false;
    } else if (eat("\\s")) {
      add_class(out, CharClass::space);
    } else if (eat("\\S")) {
      add_class(out, CharClass::space);
      negate(out);
    } else if (eat("\\d")) {
      add_range(out, '0', '9');
    } else if (eat("\\p{")) {
      property(out);
    } else {
      const uint32_t first = character();
      uint32_t last = first;
      if (inside && p_.substr(at_, 1) == "-" && p_.substr(at_, 2) != "-]") {
        ++at_;
        last = character();
      }
      add_range(out, first, last);
    }
  }

  uint32_t character() {
    if (eat("\\r")) return '\r';
    if (eat("\\n")) return '\n';
    if (eat("\\t")) return '\t';
    eat("\\");
    if (!more()) return ok_ = false, 0u;
    return literal();
  }

  void property(CharSet& out) {
    if (eat("L}")) return add_class(out, CharClass::letter);
    if (eat("N}")) return add_class(out, CharClass::number);
    if (eat("M}")) return add_class(out, CharClass::mark);
    if (eat("P}")) return add_class(out, CharClass::punctuation);
    if (eat("S}")) return add_class(out, CharClass::symbol);
    ok_ = ok_ && eat("Han}");
    out.ranges.insert(out.ranges.end(), std::begin(kHan), std::end(kHan));
  }

  std::string_view p_;
  std::vector<CharSet>& sets_;
  size_t at_ = 0;
  bool ok_ = true;
};

Result<Splitter> Splitter::make(const std::vector<std::string_view>& patterns) {
  Splitter out;
  for (std::string_view text : patterns) {
    PatternParser parser(text, out.sets_);
    Pattern pattern;
    pattern.alternatives = parser.parse();
    if (!parser.ok()) return fail(ErrorCode::internal, "pre-tokenizer pattern", text);
    if (pattern.alternatives.size() == 1 && !pattern.alternatives[0].empty()) {
      const Item& first = pattern.alternatives[0][0];
      pattern.skips_runs = first.kind == Kind::set && first.min == 1 && first.max == kUnbounded;
    }
    out.patterns_.push_back(std::move(pattern));
  }
  return out;
}

bool Splitter::match(Text text, const Sequence& items, size_t i, size_t pos, size_t& end) const {
  for (; i < items.size(); ++i) {
    const Item& item = items[i];
    switch (item.kind) {
      case Kind::set: {
        const CharSet& set = sets_[item.set];
        const size_t limit = text.end - pos <= item.max ? text.end : pos + item.max;
        size_t to = pos;
        while (to < limit && set.has(text.cells[to])) ++to;
        if (to - pos < item.min) return false;
        if (item.min == item.max || i + 1 == items.size()) {
          pos = to;
          break;
        }
        for (;; --to) {
          if (match(text, items, i + 1, to, end)) return true;
          if (to - pos <= item.min) return false;
        }
      }
      case Kind::group: {
        for (const Sequence& alternative : item.alternatives) {
          size_t to = pos;
          if (match(text, alternative, 0, pos, to) && match(text, items, i + 1, to, end))
            return true;
        }
        if (item.min != 0) return false;
        break;
      }
      case Kind::ahead:
        if (pos == text.end || !sets_[item.set].has(text.cells[pos])) return false;
        break;
      case Kind::not_ahead:
        if (pos < text.end && sets_[item.set].has(text.cells[pos])) return false;
        break;
      case Kind::end:
        if (pos != text.end) return false;
        break;
    }
  }
  end = pos;
  return true;
}

size_t Splitter::match_any(Text text, const Pattern& pattern, size_t pos) const {
  for (const Sequence& items : pattern.alternatives) {
    size_t end = pos;
    if (match(text, items, 0, pos, end) && end > pos) return end;
  }
  return pos;
}

void Splitter::run(Text text, size_t stage, size_t begin,
                   FunctionRef<void(size_t, size_t)> piece) const {
  if (begin == text.end) return;
  if (stage == patterns_.size()) return piece(begin, text.end);
  const Pattern& pattern = patterns_[stage];
  size_t gap = begin;
  for (size_t pos = begin; pos < text.end;) {
    const size_t end = match_any(text, pattern, pos);
    if (end == pos) {
      ++pos;
      if (pattern.skips_runs) {
        const CharSet& set = sets_[pattern.alternatives[0][0].set];
        while (pos < text.end && set.has(text.cells[pos - 1]) && set.has(text.cells[pos])) ++pos;
      }
      continue;
    }
    run({text.cells, pos}, stage + 1, gap, piece);
    run({text.cells, end}, stage + 1, pos, piece);
    gap = pos = end;
  }
  run(text, stage + 1, gap, piece);
}

void Splitter::split(const std::vector<Cell>& cells,
                     FunctionRef<void(size_t, size_t)> piece) const {
  run({cells.data(), cells.size()}, 0, 0, piece);
}

}  // namespace gyre::text
