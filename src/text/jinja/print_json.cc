#include <algorithm>
#include <cmath>

#include "text/jinja/print.h"
#include "text/unicode.h"

namespace gyre::text::jinja {
namespace {

void append_u16(uint32_t unit, std::string& out) {
  constexpr char kDigits[] = "0123456789abcdef";
  out += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) out += kDigits[unit >> shift & 15];
}

void append_escaped(std::string_view text, size_t pos, const CodePoint& c, bool ascii,
                    std::string& out) {
  constexpr std::string_view kFrom = "\"\\\n\r\t\f\b", kTo = "\"\\nrtfb";
  if (c.value < 0x80) {
    const char byte = static_cast<char>(c.value);
    if (const size_t at = kFrom.find(byte); at != std::string_view::npos) {
      out += '\\';
      out += kTo[at];
    } else if (c.value < 0x20 || (c.value == 0x7F && ascii)) {
      append_u16(c.value, out);
    } else {
      out += byte;
    }
  } else if (!ascii) {
    out.append(text, pos, c.bytes);
  } else if (c.value < 0x10000) {
    append_u16(c.value, out);
  } else {
    append_u16(0xD800 + ((c.value - 0x10000) >> 10), out);
    append_u16(0xDC00 + ((c.value - 0x10000) & 0x3FF), out);
  }
}

class JsonWriter {
 public:
  JsonWriter(Budget& budget, const JsonStyle& style, std::string& out)
      : budget_(budget), style_(style), out_(out) {}

  Status write(const Value& value, int level) {
    const Level nested(budget_);
    if (!nested.status().ok()) return nested.status();
    const size_t before = out_.size();
    switch (value.kind()) {
      case Kind::string:
        GYRE_TRY(quoted(value.text()));
        break;
      case Kind::none:
      case Kind::boolean:
      case Kind::integer:
      case Kind::real:
        out_ += scalar(value);
        break;
      case Kind::list:
        if (value.items().kind == ListKind::list || value.items().kind == ListKind::tuple)
          return list(value.items().items, level);
        return refused(value);
      case Kind::dict:
        return dict(value.entries(), level);
      default:
        return refused(value);
    }
    GYRE_TRY(budget_.step());
    return budget_.grow(out_.size() - before, out_.size());
  }

 private:
  static Error refused(const Value& value) {
    return fail(ErrorCode::usage, "tojson", type_name(value), "a value that JSON knows");
  }

  static std::string scalar(const Value& value) {
    if (value.is(Kind::none)) return "null";
    if (value.is(Kind::boolean)) return value.as_bool() ? "true" : "false";
    if (value.is(Kind::integer)) return int_text(value.as_int());
    const double number = value.as_double();
    if (std::isnan(number)) return "NaN";
    if (std::isinf(number)) return number < 0 ? "-Infinity" : "Infinity";
    return float_text(number);
  }

  Status quoted(std::string_view text) {
    GYRE_TRY(budget_.scan(text.size()));
    out_ += '"';
    for (size_t pos = 0; pos < text.size();) {
      const CodePoint c = decode_lenient(text, pos);
      append_escaped(text, pos, c, style_.ensure_ascii, out_);
      pos += c.bytes;
    }
    out_ += '"';
    return {};
  }

  Status newline(int level) {
    if (!style_.pretty) return {};
    const size_t size = 1 + style_.indent.size() * static_cast<size_t>(level);
    GYRE_TRY(budget_.grow(size, out_.size() + size));
    out_ += '\n';
    for (int i = 0; i < level; ++i) out_ += style_.indent;
    return {};
  }

  Status between(bool first, int level) {
    if (!first) out_ += style_.item_separator;
    return newline(level);
  }

  Status list(const std::vector<Value>& items, int level) {
    out_ += '[';
    for (size_t i = 0; i < items.size(); ++i) {
      GYRE_TRY(between(i == 0, level + 1));
      GYRE_TRY(write(items[i], level + 1));
    }
    if (!items.empty()) GYRE_TRY(newline(level));
    out_ += ']';
    return budget_.grow(2, out_.size());
  }

  Status dict(const DictObject& dict, int level) {
    std::vector<const std::pair<Value, Value>*> entries;
    GYRE_TRY(budget_.items(dict.entries.size()));
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (style_.sort_keys) {
      for (const auto* entry : entries)
        if (!entry->first.is(Kind::string)) return refused(entry->first);
      std::stable_sort(entries.begin(), entries.end(), [](const auto* a, const auto* b) {
        return a->first.text() < b->first.text();
      });
    }
    out_ += '{';
    for (size_t i = 0; i < entries.size(); ++i) {
      const Value& key = entries[i]->first;
      GYRE_TRY(between(i == 0, level + 1));
      if (key.is(Kind::list) || key.is(Kind::undefined) || key.is(Kind::callable))
        return refused(key);
      GYRE_TRY(quoted(key.is(Kind::string) ? key.text() : scalar(key)));
      out_ += style_.key_separator;
      GYRE_TRY(write(entries[i]->second, level + 1));
    }
    if (!entries.empty()) GYRE_TRY(newline(level));
    out_ += '}';
    return budget_.grow(2, out_.size());
  }

  Budget& budget_;
  const JsonStyle& style_;
  std::string& out_;
};

}  // namespace

Status append_json(Budget& budget, const Value& value, const JsonStyle& style, std::string& out) {
  return JsonWriter(budget, style, out).write(value, 0);
}

}  // namespace gyre::text::jinja
