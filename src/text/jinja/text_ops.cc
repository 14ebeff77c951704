#include "text/jinja/text_ops.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "text/unicode.h"

namespace gyre::text::jinja {
namespace {

bool stripped(std::string_view text, size_t pos, size_t bytes, const std::string* chars) {
  if (chars == nullptr) return is_space(decode_lenient(text, pos).value);
  const std::string_view one = text.substr(pos, bytes);
  for (size_t at = 0; at < chars->size(); at += decode_lenient(*chars, at).bytes)
    if (std::string_view(*chars).substr(at, decode_lenient(*chars, at).bytes) == one) return true;
  return false;
}

// Start of the last code point of a text that is not empty.
size_t last_start(std::string_view text) {
  size_t at = text.size() - 1;
  while (at > 0 && text.size() - at < 4 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80)
    --at;
  if (at + decode_lenient(text, at).bytes != text.size()) return text.size() - 1;
  return at;
}

}  // namespace

bool is_space(uint32_t c) {
  return char_class(c) == CharClass::space || (c >= 0x1C && c <= 0x1F);
}

bool is_printable(uint32_t c) {
  const CharClass cls = char_class(c);
  return c == ' ' || (cls != CharClass::other && cls != CharClass::space);
}

size_t length(std::string_view text) {
  size_t count = 0;
  for (size_t pos = 0; pos < text.size(); ++count) pos += decode_lenient(text, pos).bytes;
  return count;
}

size_t byte_offset(std::string_view text, size_t index) {
  size_t pos = 0;
  for (; index > 0 && pos < text.size(); --index) pos += decode_lenient(text, pos).bytes;
  return pos;
}

std::vector<std::string> code_points(std::string_view text) {
  std::vector<std::string> out;
  for (size_t pos = 0; pos < text.size(); pos += out.back().size())
    out.emplace_back(text.substr(pos, decode_lenient(text, pos).bytes));
  return out;
}

std::string unix_newlines(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') continue;
    out.push_back(text[i] == '\r' ? '\n' : text[i]);
  }
  return out;
}

std::string_view lstrip(std::string_view text, const std::string* chars) {
  while (!text.empty()) {
    const size_t bytes = decode_lenient(text, 0).bytes;
    if (!stripped(text, 0, bytes, chars)) break;
    text.remove_prefix(bytes);
  }
  return text;
}

std::string_view rstrip(std::string_view text, const std::string* chars) {
  while (!text.empty()) {
    const size_t at = last_start(text);
    if (!stripped(text, at, text.size() - at, chars)) break;
    text = text.substr(0, at);
  }
  return text;
}

std::string_view strip(std::string_view text, const std::string* chars) {
  return rstrip(lstrip(text, chars), chars);
}

std::vector<std::string> split(std::string_view text, std::string_view separator, int64_t limit) {
  std::vector<std::string> out;
  size_t pos = 0;
  while (limit < 0 || static_cast<int64_t>(out.size()) < limit) {
    const size_t at = text.find(separator, pos);
    if (at == std::string_view::npos) break;
    out.emplace_back(text.substr(pos, at - pos));
    pos = at + separator.size();
  }
  out.emplace_back(text.substr(pos));
  return out;
}

std::vector<std::string> rsplit(std::string_view text, std::string_view separator, int64_t limit) {
  std::vector<std::string> out;
  while ((limit < 0 || static_cast<int64_t>(out.size()) < limit) &&
         text.size() >= separator.size()) {
    const size_t at = text.rfind(separator);
    if (at == std::string_view::npos) break;
    out.emplace_back(text.substr(at + separator.size()));
    text = text.substr(0, at);
  }
  out.emplace_back(text);
  std::reverse(out.begin(), out.end());
  return out;
}

std::vector<std::string> split_space(std::string_view text, int64_t limit) {
  std::vector<std::string> out;
  text = lstrip(text);
  while (!text.empty()) {
    if (limit >= 0 && static_cast<int64_t>(out.size()) >= limit) {
      out.emplace_back(text);  // the rest, with its trailing blanks
      break;
    }
    size_t end = 0;
    while (end < text.size() && !is_space(decode_lenient(text, end).value))
      end += decode_lenient(text, end).bytes;
    out.emplace_back(text.substr(0, end));
    text = lstrip(text.substr(end));
  }
  return out;
}

std::vector<std::string> rsplit_space(std::string_view text, int64_t limit) {
  std::vector<std::string> out;
  text = rstrip(text);
  while (!text.empty()) {
    if (limit >= 0 && static_cast<int64_t>(out.size()) >= limit) {
      out.emplace_back(text);
      break;
    }
    size_t begin = text.size();
    while (begin > 0 && !is_space(decode_lenient(text, last_start(text.substr(0, begin))).value))
      begin = last_start(text.substr(0, begin));
    out.emplace_back(text.substr(begin));
    text = rstrip(text.substr(0, begin));
  }
  std::reverse(out.begin(), out.end());
  return out;
}

std::vector<std::string> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string> out;
  size_t begin = 0;
  for (size_t pos = 0; pos < text.size();) {
    const CodePoint c = decode_lenient(text, pos);
    const uint32_t v = c.value;
    const bool ends = (v >= 0xA && v <= 0xD) || (v >= 0x1C && v <= 0x1E) || v == 0x85 ||
                      v == 0x2028 || v == 0x2029;
    const size_t end = pos;
    pos += c.bytes;
    if (!ends) continue;
    if (v == '\r' && pos < text.size() && text[pos] == '\n') ++pos;
    out.emplace_back(text.substr(begin, (keep_ends ? pos : end) - begin));
    begin = pos;
  }
  if (begin < text.size()) out.emplace_back(text.substr(begin));
  return out;
}

std::string replace(std::string_view text, std::string_view from, std::string_view to,
                    int64_t count) {
  std::string out;
  size_t pos = 0;
  if (from.empty()) {
    for (; count != 0; --count) {
      out += to;
      if (pos >= text.size()) return out;
      const size_t bytes = decode_lenient(text, pos).bytes;
      out.append(text, pos, bytes);
      pos += bytes;
    }
    return out.append(text, pos);
  }
  for (; count != 0; --count) {
    const size_t at = text.find(from, pos);
    if (at == std::string_view::npos) break;
    out.append(text, pos, at - pos).append(to);
    pos = at + from.size();
  }
  return out.append(text, pos);
}

size_t count(std::string_view text, std::string_view part) {
  if (part.empty()) return length(text) + 1;
  size_t found = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string_view::npos; at += part.size())
    ++found;
  return found;
}

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&#34;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

namespace {

// The code point of \x41, A, U00000041 or \101 at body[at]; moves `at` behind it.
bool numeric_escape(std::string_view body, size_t& at, uint32_t* out) {
  const char c = body[at];
  const bool octal = c >= '0' && c <= '7';
  const size_t most = octal ? 3 : c == 'x' ? 2 : c == 'u' ? 4 : 8;
  if (!octal) ++at;
  const std::string_view rest = body.substr(at, std::min(most, body.size() - at));
  const auto [end, error] =
      std::from_chars(rest.data(), rest.data() + rest.size(), *out, octal ? 8 : 16);
  const size_t used = static_cast<size_t>(end - rest.data());
  at += used;
  return error == std::errc() && (octal || used == most) && *out < 0x110000;
}

}  // namespace

Result<std::string> unescape(std::string_view body) {
  constexpr std::string_view kNames = "\\'\"abfnrtv", kValues = "\\'\"\a\b\f\n\r\t\v";
  std::string out;
  for (size_t at = 0; at < body.size();) {
    if (body[at] != '\\' || at + 1 == body.size()) {
      out += body[at++];
      continue;
    }
    const char c = body[++at];
    if (const size_t name = kNames.find(c); name != std::string_view::npos) {
      out += kValues[name];
      ++at;
    } else if (c == '\n') {
      ++at;
    } else if (c == 'x' || c == 'u' || c == 'U' || (c >= '0' && c <= '7')) {
      uint32_t code_point = 0;
      if (!numeric_escape(body, at, &code_point))
        return fail(ErrorCode::bad_file, std::string("escape \\") + c);
      append_utf8(out, code_point);
    } else if (c == 'N') {
      return fail(ErrorCode::bad_file, "escape \\N");
    } else {
      out += '\\';  // Python keeps an unknown escape; its character follows
    }
  }
  return out;
}

double parse_double(std::string_view text) {
  double value = std::numeric_limits<double>::quiet_NaN();
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc::result_out_of_range) return value;
  const size_t e = text.find_first_of("eE");
  const bool tiny = e != std::string_view::npos && text.find('-', e) != std::string_view::npos;
  const double far = tiny ? 0.0 : std::numeric_limits<double>::infinity();
  return text.substr(0, 1) == "-" ? -far : far;
}

bool float_from_text(std::string_view text, double* out) {
  std::string plain;
  text = strip(text);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto digit = [&](size_t at) {
      return at < text.size() && text[at] >= '0' && text[at] <= '9';
    };
    if (text[i] == '_' && i > 0 && digit(i - 1) && digit(i + 1)) continue;
    plain += text[i];
  }
  std::string_view number = plain;
  if (!number.empty() && number[0] == '+') number.remove_prefix(1);
  if (number.empty() || number[0] == '+' || (plain[0] == '+' && number[0] == '-')) return false;
  std::string_view digits = number;
  if (digits[0] == '-') digits.remove_prefix(1);
  const std::string small = lower(digits);
  if (small == "inf" || small == "infinity" || small == "nan") {
    *out = small == "nan" ? std::numeric_limits<double>::quiet_NaN()
                          : std::numeric_limits<double>::infinity();
    if (number[0] == '-') *out = -*out;
    return true;
  }
  if (digits.empty() || digits.find_first_not_of("0123456789.eE+-") != std::string_view::npos)
    return false;
  double value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (end != number.data() + number.size() || error == std::errc::invalid_argument) return false;
  *out = parse_double(number);
  return true;
}

}  // namespace gyre::text::jinja
