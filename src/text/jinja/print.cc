#include "text/jinja/print.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/jinja/callable.h"
#include "text/jinja/text_ops.h"
#include "text/unicode.h"

namespace gyre::text::jinja {
namespace {

std::string hex(uint32_t value, int width) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out(static_cast<size_t>(width), '0');
  for (int i = width - 1; i >= 0; --i, value >>= 4)
    out[static_cast<size_t>(i)] = kDigits[value & 15];
  return out;
}

void append_quoted(std::string_view text, std::string& out) {
  const bool single =
      text.find('\'') == std::string_view::npos || text.find('"') != std::string_view::npos;
  const char quote = single ? '\'' : '"';
  out += quote;
  for (size_t pos = 0; pos < text.size();) {
    const CodePoint c = decode_lenient(text, pos);
    const uint32_t v = c.value;
    if (v == static_cast<uint32_t>(quote) || v == '\\') {
      out += '\\';
      out += static_cast<char>(v);
    } else if (v == '\n' || v == '\r' || v == '\t') {
      out += v == '\n' ? "\\n" : v == '\r' ? "\\r" : "\\t";
    } else if (is_printable(v) || !c.valid) {
      out.append(text, pos, c.bytes);
    } else {
      out += v < 0x100 ? "\\x" + hex(v, 2) : v < 0x10000 ? "\\u" + hex(v, 4) : "\\U" + hex(v, 8);
    }
    pos += c.bytes;
  }
  out += quote;
}

Status append_items(Budget& budget, const std::vector<Value>& items, std::string& out) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += ", ";
    GYRE_TRY(append_repr(budget, items[i], out));
  }
  return {};
}

Status append_list(Budget& budget, const ListObject& list, std::string& out) {
  switch (list.kind) {
    case ListKind::generator:
      out += "<generator object>";
      return {};
    case ListKind::range: {
      const size_t n = list.items.size();
      const Int first = n > 0 ? list.items[0].as_int() : 0;
      const Int step = n > 1 ? list.items[1].as_int() - first : 1;
      out += "range(" + int_text(first) + ", " +
             int_text(n > 0 ? list.items[n - 1].as_int() + step : first);
      out += step == 1 ? ")" : ", " + int_text(step) + ")";
      return {};
    }
    case ListKind::view:
      out += "dict_" + std::string(list.view_of) + "([";
      GYRE_TRY(append_items(budget, list.items, out));
      out += "])";
      return {};
    case ListKind::tuple:
      out += '(';
      GYRE_TRY(append_items(budget, list.items, out));
      out += list.items.size() == 1 ? ",)" : ")";
      return {};
    case ListKind::list:
      out += '[';
      GYRE_TRY(append_items(budget, list.items, out));
      out += ']';
  }
  return {};
}

Status append_dict(Budget& budget, const DictObject& dict, std::string& out) {
  out += '{';
  bool first = true;
  for (const auto& [key, value] : dict.entries) {
    if (!first) out += ", ";
    first = false;
    GYRE_TRY(append_repr(budget, key, out));
    out += ": ";
    GYRE_TRY(append_repr(budget, value, out));
  }
  out += '}';
  return {};
}

}  // namespace

std::string int_text(Int value) {
  const bool negative = value < 0;
  auto rest = static_cast<unsigned __int128>(value);
  if (negative) rest = 0 - rest;
  std::string out;
  do {
    out += static_cast<char>('0' + static_cast<int>(rest % 10));
    rest /= 10;
  } while (rest != 0);
  if (negative) out += '-';
  std::reverse(out.begin(), out.end());
  return out;
}

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  std::string_view text(buffer, static_cast<size_t>(end.ptr - buffer));
  std::string out;
  if (text[0] == '-') {
    out = "-";
    text.remove_prefix(1);
  }
  const size_t e = text.find('e');
  int exponent = 0;
  std::from_chars(text.data() + e + (text[e + 1] == '+' ? 2 : 1), text.data() + text.size(),
                  exponent);
  std::string digits(1, text[0]);
  if (e > 2) digits += text.substr(2, e - 2);
  const int count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    out += digits.substr(0, 1);
    if (count > 1) out += "." + digits.substr(1);
    const std::string power = std::to_string(std::abs(exponent));
    return out + (exponent < 0 ? "e-" : "e+") + (power.size() < 2 ? "0" : "") + power;
  }
  if (exponent < 0)
    return out + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  if (count <= exponent + 1)
    return out + digits + std::string(static_cast<size_t>(exponent + 1 - count), '0') + ".0";
  const size_t whole = static_cast<size_t>(exponent) + 1;
  return out + digits.substr(0, whole) + "." + digits.substr(whole);
}

Status append_repr(Budget& budget, const Value& value, std::string& out) {
  const Level level(budget);
  if (!level.status().ok()) return level.status();
  GYRE_TRY(budget.step());
  const size_t before = out.size();
  switch (value.kind()) {
    case Kind::undefined:
      out += "Undefined";
      break;
    case Kind::none:
      out += "None";
      break;
    case Kind::boolean:
      out += value.as_bool() ? "True" : "False";
      break;
    case Kind::integer:
      out += int_text(value.as_int());
      break;
    case Kind::real:
      out += float_text(value.as_double());
      break;
    case Kind::string:
      GYRE_TRY(budget.scan(value.text().size()));
      if (value.markup()) out += "Markup(";
      append_quoted(value.text(), out);
      if (value.markup()) out += ")";
      break;
    case Kind::list:
      GYRE_TRY(append_list(budget, value.items(), out));
      return budget.grow(2, out.size());
    case Kind::dict:
      GYRE_TRY(append_dict(budget, value.entries(), out));
      return budget.grow(2, out.size());
    case Kind::name_space:
      out += "<Namespace ";
      GYRE_TRY(append_dict(budget, value.entries(), out));
      out += ">";
      return budget.grow(2, out.size());
    case Kind::callable:
      out += value.function().kind == CallKind::macro ? "<Macro '" : "<function '";
      out += value.function().name + "'>";
  }
  return budget.grow(out.size() - before, out.size());
}

Status append_str(Budget& budget, const Value& value, std::string& out) {
  if (value.is(Kind::undefined)) return {};
  if (!value.is(Kind::string)) return append_repr(budget, value, out);
  GYRE_TRY(budget.grow(value.text().size(), out.size() + value.text().size()));
  out += value.text();
  return {};
}

}  // namespace gyre::text::jinja
