#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "text/jinja/interpreter.h"
#include "text/jinja/print.h"
#include "text/jinja/text_ops.h"

namespace gyre::text::jinja {
namespace {

constexpr int kMaxWidth = 10000;

// [[fill]align][sign][#][0][width][,][.precision][type], of both kinds of format.
struct Spec {
  std::string fill = " ";
  char align = '\0', sign = '-', type = '\0';
  bool alternate = false, zero = false, comma = false;
  int width = 0, precision = -1;
};

bool number(std::string_view text, size_t& at, int* out) {
  int value = 0;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
    value = value * 10 + (text[at] - '0');
    if (value > kMaxWidth) return false;
  }
  *out = value;
  return true;
}

bool parse_spec(std::string_view text, Spec* spec) {
  size_t at = 0;
  const size_t first = text.empty() ? 0 : byte_offset(text, 1);
  const auto aligns = [](char c) { return c != '\0' && std::strchr("<>^=", c) != nullptr; };
  if (first < text.size() && aligns(text[first])) {
    spec->fill = std::string(text.substr(0, first));
    spec->align = text[first];
    at = first + 1;
  } else if (!text.empty() && aligns(text[0])) {
    spec->align = text[at++];
  }
  const auto take = [&](char c) { return at < text.size() && text[at] == c ? ++at : 0; };
  for (const char c : {'+', '-', ' '})
    if (take(c)) spec->sign = c;
  spec->alternate = take('#') != 0;
  spec->zero = take('0') != 0;
  if (!number(text, at, &spec->width)) return false;
  spec->comma = take(',') != 0;
  if (take('.') && (at == text.size() || !number(text, at, &spec->precision))) return false;
  if (at < text.size()) spec->type = text[at++];
  return at == text.size();
}

std::string with_commas(std::string digits) {
  const size_t end = std::min(digits.find_first_not_of("0123456789"), digits.size());
  for (size_t i = end; i > 3; i -= 3) digits.insert(i - 3, ",");
  return digits;
}

std::string in_base(Int value, unsigned base, bool capital) {
  const char* kDigits = capital ? "0123456789ABCDEF" : "0123456789abcdef";
  std::string out;
  auto rest = static_cast<unsigned __int128>(value);
  do out += kDigits[static_cast<size_t>(rest % base)];
  while ((rest /= base) != 0);
  std::reverse(out.begin(), out.end());
  return out;
}

std::string real_digits(double value, char type, int precision) {
  if (std::isinf(value) || std::isnan(value)) return std::isnan(value) ? "nan" : "inf";
  if (type == '\0' && precision < 0) return float_text(value);
  const bool percent = type == '%';
  const char form[] = {'%', '.', '*', percent ? 'f' : type == '\0' ? 'g' : type, '\0'};
  char buffer[512];
  const int limited = std::min(precision < 0 ? 6 : precision, 100);
  std::snprintf(buffer, sizeof buffer, form, limited, percent ? value * 100 : value);
  return std::string(buffer) + (percent ? "%" : "");
}

// Sign and digits of a number; false if the type letter does not fit the value.
bool number_text(const Value& value, const Spec& spec, bool* negative, std::string* out) {
  const char type = spec.type;
  const bool is_int_type =
      type == '\0' ? value.is_integral() : std::strchr("dixXobu", type) != nullptr;
  if (is_int_type) {
    Int whole = value.as_int();
    if (value.is(Kind::real)) {
      if (!(std::fabs(value.as_double()) < 1e30)) return false;
      whole = static_cast<Int>(value.as_double());
    }
    *negative = whole < 0;
    if (*negative) whole = -whole;
    const unsigned base = type == 'x' || type == 'X' ? 16 : type == 'o' ? 8 : type == 'b' ? 2 : 10;
    *out = in_base(whole, base, type == 'X');
    if (spec.alternate && base != 10) *out = std::string("0") + type + *out;
  } else if (type == '\0' || std::strchr("eEfFgG%", type) != nullptr) {
    *negative = std::signbit(value.as_double());
    *out = real_digits(std::fabs(value.as_double()), type, spec.precision);
  } else {
    return false;
  }
  if (spec.comma) *out = with_commas(*out);
  return true;
}

std::string padded(const Spec& spec, const std::string& sign, const std::string& body,
                   char fallback) {
  const char align = spec.align != '\0' ? spec.align : spec.zero ? '=' : fallback;
  const std::string& zero = "0";
  const std::string& fill = spec.zero && spec.align == '\0' ? zero : spec.fill;
  const int pad = spec.width - static_cast<int>(length(body) + sign.size());
  if (pad <= 0) return sign + body;
  const auto filled = [&](int n) {
    std::string out;
    for (; n > 0; --n) out += fill;
    return out;
  };
  if (align == '=') return sign + filled(pad) + body;
  const int left = align == '<' ? 0 : align == '>' ? pad : pad / 2;
  return filled(left) + sign + body + filled(pad - left);
}

Result<std::string> format_value(Interpreter& in, const Value& value, const Spec& spec,
                                 bool percent) {
  if (value.is_number() && spec.type != 's' && !(value.is(Kind::boolean) && spec.type == '\0')) {
    bool negative = false;
    std::string body;
    if (!number_text(value, spec, &negative, &body))
      return in.error("format", std::string(1, spec.type), "a type that fits the value");
    const std::string sign = negative           ? "-"
                             : spec.sign == '-' ? std::string()
                                                : std::string(1, spec.sign);
    return padded(spec, sign, body, '>');
  }
  if (spec.type != '\0' && spec.type != 's') {
    if (value.is(Kind::undefined)) return in.is_undefined(value);
    return in.error("format", type_name(value), "a number");
  }
  GYRE_ASSIGN(std::string body, in.str(value));
  if (spec.precision >= 0) body.resize(byte_offset(body, static_cast<size_t>(spec.precision)));
  return padded(spec, "", body, percent ? '>' : '<');
}

Result<std::string> repr(Interpreter& in, const Value& value) {
  std::string out;
  GYRE_TRY(append_repr(in.budget(), value, out));
  return out;
}

// Which arguments a "..." % values format reads.
struct PercentValues {
  const Value& values;
  size_t next = 0;
  bool is_tuple() const { return values.is_list(ListKind::tuple); }
  Result<Value> take(Interpreter& in) {
    const size_t count = is_tuple() ? values.items().items.size() : 1;
    if (next >= count) return in.error("format", "not enough arguments");
    return is_tuple() ? values.items().items[next++] : (++next, values);
  }
};

// One directive behind the % at `at`.
Result<std::string> percent_directive(Interpreter& in, const std::string& format, size_t& at,
                                      PercentValues& values) {
  Value value;
  bool named = false;
  if (at < format.size() && format[at] == '(') {
    const size_t end = format.find(')', at);
    if (end == std::string::npos || !values.values.is(Kind::dict))
      return in.error("format", "%(", "a dict and a closing bracket");
    const Value* found = values.values.entries().find(format.substr(at + 1, end - at - 1));
    if (found == nullptr) return in.error("format", format.substr(at, end + 1 - at), "a known key");
    value = *found;
    named = true;
    at = end + 1;
  }
  Spec spec;
  for (; at < format.size() && std::strchr("-+ #0", format[at]) != nullptr; ++at) {
    if (format[at] == '-') spec.align = '<';
    if (format[at] == '+' || (format[at] == ' ' && spec.sign == '-')) spec.sign = format[at];
    spec.alternate = spec.alternate || format[at] == '#';
    spec.zero = spec.zero || format[at] == '0';
  }
  bool good = number(format, at, &spec.width);
  if (good && at < format.size() && format[at] == '.') good = number(format, ++at, &spec.precision);
  if (!good || at >= format.size()) return in.error("format", format, "a complete directive");
  spec.type = format[at++];
  if (spec.type == '%') return std::string("%");
  if (std::strchr("diuxXoeEfFgGsrac", spec.type) == nullptr)
    return in.error("format", std::string(1, spec.type), "a known type");
  if (!named) {
    GYRE_ASSIGN(value, values.take(in));
  }
  if (spec.type == 'r' || spec.type == 'a') {
    GYRE_ASSIGN(std::string text, repr(in, value));
    value = Value::string(std::move(text));
  }
  if (spec.type == 'r' || spec.type == 'a' || spec.type == 's' || spec.type == 'c') {
    GYRE_ASSIGN(std::string text, in.str(value));
    value = Value::string(std::move(text));
    spec.type = 's';
    spec.zero = false;
  }
  return format_value(in, value, spec, true);
}

}  // namespace

Result<Value> percent_format(Interpreter& in, const std::string& format, const Value& values) {
  PercentValues arguments{values};
  std::string out;
  for (size_t at = 0; at < format.size();) {
    if (format[at] != '%') {
      out += format[at++];
      continue;
    }
    GYRE_ASSIGN(const std::string part, percent_directive(in, format, ++at, arguments));
    out += part;
    GYRE_TRY(in.budget().grow(part.size(), out.size()));
  }
  const bool all = arguments.is_tuple() ? arguments.next == values.items().items.size()
                                        : arguments.next > 0 || values.is(Kind::dict);
  if (!all) return in.error("format", "not all arguments converted");
  return in.text(std::move(out));
}

namespace {

// {name!r:spec}; `automatic` counts the fields without a name.
Result<std::string> brace_field(Interpreter& in, std::string_view field, const Args& args,
                                size_t& automatic) {
  const size_t colon = field.find(':');
  std::string_view name = field.substr(0, colon);
  char conversion = '\0';
  if (const size_t mark = name.find('!'); mark != std::string_view::npos) {
    conversion = mark + 1 < name.size() ? name[mark + 1] : '?';
    name = name.substr(0, mark);
  }
  const Value* value = nullptr;
  size_t at = 0;
  int index = 0;
  if (name.empty() || (number(name, at, &index) && at == name.size())) {
    const size_t which = name.empty() ? automatic++ : static_cast<size_t>(index);
    if (which < args.positional.size()) value = &args.positional[which];
  } else {
    for (const auto& [key, argument] : args.named)
      if (key == name) value = &argument;
  }
  if (value == nullptr) return in.error("format", "{" + std::string(name) + "}", "an argument");
  Spec spec;
  if (colon != std::string_view::npos && !parse_spec(field.substr(colon + 1), &spec))
    return in.error("format", field, "a format that templates may use");
  if (conversion == '\0') return format_value(in, *value, spec, false);
  GYRE_ASSIGN(std::string text, conversion == 's' ? in.str(*value) : repr(in, *value));
  return format_value(in, Value::string(std::move(text)), spec, false);
}

}  // namespace

Result<Value> brace_format(Interpreter& in, const std::string& format, const Args& args) {
  std::string out;
  size_t automatic = 0;
  for (size_t at = 0; at < format.size(); ++at) {
    const char c = format[at];
    if (c != '{' && c != '}') {
      out += c;
    } else if (at + 1 < format.size() && format[at + 1] == c) {
      out += c;
      ++at;
    } else {
      const size_t end = c == '{' ? format.find('}', at) : std::string::npos;
      if (end == std::string::npos) return in.error("format", "a single brace", "a pair");
      const std::string_view field = std::string_view(format).substr(at + 1, end - at - 1);
      GYRE_ASSIGN(const std::string part, brace_field(in, field, args, automatic));
      out += part;
      GYRE_TRY(in.budget().grow(part.size(), out.size()));
      at = end;
    }
  }
  return in.text(std::move(out));
}

}  // namespace gyre::text::jinja
