#include <algorithm>

#include "text/jinja/interpreter.h"
#include "text/jinja/text_ops.h"
#include "text/unicode.h"

namespace gyre::text::jinja {
namespace {

using Pick = std::vector<const Value*>;

Result<std::string> text_argument(const Interpreter& in, const Value& value) {
  if (value.is(Kind::undefined)) return in.is_undefined(value);
  if (!value.is(Kind::string)) return in.error("argument", type_name(value), "a string");
  return value.text();
}

Result<Value> text_list(Interpreter& in, std::vector<std::string> parts,
                        ListKind kind = ListKind::list) {
  std::vector<Value> out;
  size_t bytes = 0;
  for (std::string& part : parts) {
    bytes += part.size();
    out.push_back(Value::string(std::move(part)));
  }
  GYRE_TRY(in.budget().grow(bytes, 0));
  return in.list(std::move(out), kind);
}

Result<Value> strip_method(Interpreter& in, const Value& object, const std::string& name,
                           const Args& args) {
  GYRE_ASSIGN(const Pick a, bind(in, name, args, {"chars"}));
  std::string chars;
  const bool given = a[0] != nullptr && !a[0]->is(Kind::none);
  if (given) {
    GYRE_ASSIGN(chars, text_argument(in, *a[0]));
    GYRE_TRY(in.budget().step(1 + chars.size() * (object.text().size() / 64 + 1)));
  }
  const std::string* set = given ? &chars : nullptr;
  const std::string& text = object.text();
  return in.text(std::string(name == "strip"    ? strip(text, set)
                             : name == "lstrip" ? lstrip(text, set)
                                                : rstrip(text, set)),
                 object.markup());
}

Result<Value> split_method(Interpreter& in, const Value& object, const std::string& name,
                           const Args& args) {
  GYRE_ASSIGN(const Pick a, bind(in, name, args, {"sep", "maxsplit"}));
  GYRE_ASSIGN(const int64_t limit, int_argument(in, a[1], -1));
  const bool right = name == "rsplit";
  if (a[0] == nullptr || a[0]->is(Kind::none))
    return text_list(
        in, right ? rsplit_space(object.text(), limit) : split_space(object.text(), limit));
  GYRE_ASSIGN(const std::string separator, text_argument(in, *a[0]));
  if (separator.empty()) return in.error(name, "empty separator", "some text");
  return text_list(
      in, right ? rsplit(object.text(), separator, limit) : split(object.text(), separator, limit));
}

Result<Value> partition(Interpreter& in, const Value& object, const std::string& name,
                        const Args& args) {
  GYRE_ASSIGN(const Pick a, bind(in, name, args, {"sep"}, 1));
  GYRE_ASSIGN(const std::string separator, text_argument(in, *a[0]));
  if (separator.empty()) return in.error(name, "empty separator", "some text");
  const std::string& text = object.text();
  const bool right = name == "rpartition";
  const size_t at = right ? text.rfind(separator) : text.find(separator);
  std::vector<std::string> parts(3);
  if (at == std::string::npos) {
    parts[right ? 2 : 0] = text;
  } else {
    parts = {text.substr(0, at), separator, text.substr(at + separator.size())};
  }
  return text_list(in, std::move(parts), ListKind::tuple);
}

// The part of the text that start and end name, as bytes; false if start lies behind the end.
Result<bool> window(Interpreter& in, const std::string& text, const Value* start, const Value* end,
                    size_t* from, size_t* to) {
  const auto none = [](const Value* v) { return v == nullptr || v->is(Kind::none); };
  *from = 0;
  *to = text.size();
  if (none(start) && none(end)) return true;
  const auto size = static_cast<int64_t>(length(text));
  GYRE_ASSIGN(int64_t first, int_argument(in, none(start) ? nullptr : start, 0));
  GYRE_ASSIGN(int64_t last, int_argument(in, none(end) ? nullptr : end, size));
  if (first < 0) first = std::max(int64_t{0}, first + size);
  if (last < 0) last = std::max(int64_t{0}, last + size);
  if (first > size || first > last) return false;
  *from = byte_offset(text, static_cast<size_t>(first));
  *to = byte_offset(text, static_cast<size_t>(std::min(last, size)));
  return true;
}

Result<Value> ends_method(Interpreter& in, const Value& object, const std::string& name,
                          const Args& args) {
  GYRE_ASSIGN(const Pick a, bind(in, name, args, {"prefix", "start", "end"}, 1));
  size_t from = 0, to = 0;
  GYRE_ASSIGN(const bool inside, window(in, object.text(), a[1], a[2], &from, &to));
  if (!inside) return Value::boolean(false);
  const std::string_view text = std::string_view(object.text()).substr(from, to - from);
  std::vector<Value> options{*a[0]};
  if (a[0]->is_list(ListKind::tuple)) options = a[0]->items().items;
  for (const Value& option : options) {
    GYRE_ASSIGN(const std::string part, text_argument(in, option));
    if (name == "startswith" ? text.starts_with(part) : text.ends_with(part))
      return Value::boolean(true);
  }
  return Value::boolean(false);
}

Result<Value> find_method(Interpreter& in, const Value& object, const std::string& name,
                          const Args& args) {
  GYRE_ASSIGN(const Pick a, bind(in, name, args, {"sub", "start", "end"}, 1));
  GYRE_ASSIGN(const std::string part, text_argument(in, *a[0]));
  const std::string& text = object.text();
  size_t from = 0, to = 0;
  GYRE_ASSIGN(const bool inside, window(in, text, a[1], a[2], &from, &to));
  const std::string_view seen = std::string_view(text).substr(from, to - from);
  if (name == "count") return Value::integer(inside ? static_cast<Int>(count(seen, part)) : 0);
  const size_t at = !inside          ? std::string_view::npos
                    : name[0] == 'r' ? seen.rfind(part)
                                     : seen.find(part);
  if (at != std::string_view::npos)
    return Value::integer(static_cast<Int>(length(std::string_view(text).substr(0, from + at))));
  if (name.ends_with("index")) return in.error(name, "substring not found");
  return Value::integer(-1);
}

Result<Value> replace_method(Interpreter& in, const Value& object, const Args& args) {
  GYRE_ASSIGN(const Pick a, bind(in, "replace", args, {"old", "new", "count"}, 2));
  GYRE_ASSIGN(const std::string from, text_argument(in, *a[0]));
  GYRE_ASSIGN(const std::string to, text_argument(in, *a[1]));
  GYRE_ASSIGN(const int64_t limit, int_argument(in, a[2], -1));
  const size_t found = std::min(count(object.text(), from), static_cast<size_t>(limit));
  GYRE_TRY(in.budget().text(object.text().size() + found * to.size()));
  return Value::string(replace(object.text(), from, to, limit), object.markup());
}

Result<Value> join_method(Interpreter& in, const Value& object, const Args& args) {
  GYRE_ASSIGN(const Pick a, bind(in, "join", args, {"iterable"}, 1));
  GYRE_ASSIGN(const std::vector<Value> items, in.iterate(*a[0]));
  std::string out;
  for (size_t i = 0; i < items.size(); ++i) {
    GYRE_ASSIGN(const std::string part, text_argument(in, items[i]));
    if (i > 0) out += object.text();
    out += part;
    GYRE_TRY(in.budget().grow(part.size() + object.text().size(), out.size()));
  }
  return Value::string(std::move(out), object.markup());
}

Result<Value> pad_method(Interpreter& in, const Value& object, const std::string& name,
                         const Args& args) {
  GYRE_ASSIGN(const Pick a, bind(in, name, args, {"width", "fillchar"}, 1));
  GYRE_ASSIGN(const int64_t width, int_argument(in, a[0], 0));
  std::string fill = name == "zfill" ? "0" : " ";
  if (a[1] != nullptr) {
    GYRE_ASSIGN(fill, text_argument(in, *a[1]));
    if (length(fill) != 1) return in.error(name, "fill", "one character");
  }
  const std::string& text = object.text();
  const int64_t pad = width - static_cast<int64_t>(length(text));
  if (pad <= 0) return object;
  GYRE_TRY(in.budget().text(text.size() + static_cast<size_t>(pad) * fill.size()));
  const auto filled = [&](int64_t n) {
    std::string out;
    for (; n > 0; --n) out += fill;
    return out;
  };
  if (name == "ljust") return Value::string(text + filled(pad));
  if (name == "rjust") return Value::string(filled(pad) + text);
  if (name == "zfill") {
    const bool sign = !text.empty() && (text[0] == '-' || text[0] == '+');
    return Value::string(text.substr(0, sign) + filled(pad) + text.substr(sign));
  }
  const int64_t left = pad / 2 + (pad & width & 1);
  return Value::string(filled(left) + text + filled(pad - left));
}

bool all(const std::string& text, bool (*fits)(uint32_t)) {
  for (size_t pos = 0; pos < text.size();) {
    const CodePoint c = decode_lenient(text, pos);
    if (!fits(c.value)) return false;
    pos += c.bytes;
  }
  return true;
}

bool is_letter(uint32_t c) {
  return char_class(c) == CharClass::letter;
}
bool is_digit(uint32_t c) {
  return char_class(c) == CharClass::number;
}

// isalpha and its like: one answer for the whole text.
Result<Value> class_method(Interpreter& in, const Value& object, const std::string& name,
                           const Args& args) {
  GYRE_TRY(bind(in, name, args, {}));
  const std::string& text = object.text();
  if (name == "isascii") return Value::boolean(all(text, [](uint32_t c) { return c < 0x80; }));
  if (name == "isprintable") return Value::boolean(all(text, is_printable));
  if (name == "islower") return Value::boolean(text != upper(text) && text == lower(text));
  if (name == "isupper") return Value::boolean(text != lower(text) && text == upper(text));
  if (text.empty()) return Value::boolean(false);
  if (name == "isspace") return Value::boolean(all(text, is_space));
  if (name == "isalpha") return Value::boolean(all(text, is_letter));
  if (name == "isalnum")
    return Value::boolean(all(text, [](uint32_t c) { return is_letter(c) || is_digit(c); }));
  if (name == "isdigit" || name == "isdecimal" || name == "isnumeric")
    return Value::boolean(all(text, is_digit));
  return in.error("str." + name, "refused", "a method that templates may call");
}

Result<Value> change_case(Interpreter& in, const Value& object, const std::string& name,
                          const Args& args) {
  GYRE_TRY(bind(in, name, args, {}));
  const std::string& text = object.text();
  return in.text(name == "upper"        ? upper(text)
                 : name == "lower"      ? lower(text)
                 : name == "title"      ? title_method(text)
                 : name == "capitalize" ? capitalize(text)
                                        : swap_case(text),
                 object.markup());
}

Result<Value> affix_method(Interpreter& in, const Value& object, const std::string& name,
                           const Args& args) {
  GYRE_ASSIGN(const Pick a, bind(in, name, args, {"affix"}, 1));
  GYRE_ASSIGN(const std::string affix, text_argument(in, *a[0]));
  const std::string& text = object.text();
  if (name == "removeprefix")
    return in.text(text.starts_with(affix) ? text.substr(affix.size()) : text);
  return in.text(text.ends_with(affix) ? text.substr(0, text.size() - affix.size()) : text);
}

}  // namespace

Result<Value> call_text_method(Interpreter& in, const Value& object, const std::string& name,
                               const Args& args) {
  GYRE_TRY(in.budget().scan(object.text().size()));
  if (name == "strip" || name == "lstrip" || name == "rstrip")
    return strip_method(in, object, name, args);
  if (name == "split" || name == "rsplit") return split_method(in, object, name, args);
  if (name == "startswith" || name == "endswith") return ends_method(in, object, name, args);
  if (name == "replace") return replace_method(in, object, args);
  if (name == "upper" || name == "lower" || name == "title" || name == "capitalize" ||
      name == "swapcase")
    return change_case(in, object, name, args);
  if (name == "find" || name == "rfind" || name == "index" || name == "rindex" || name == "count")
    return find_method(in, object, name, args);
  if (name == "join") return join_method(in, object, args);
  if (name == "partition" || name == "rpartition") return partition(in, object, name, args);
  if (name == "removeprefix" || name == "removesuffix") return affix_method(in, object, name, args);
  if (name == "center" || name == "ljust" || name == "rjust" || name == "zfill")
    return pad_method(in, object, name, args);
  if (name == "format") return brace_format(in, object.text(), args);
  if (name == "splitlines") {
    GYRE_ASSIGN(const Pick a, bind(in, name, args, {"keepends"}));
    return text_list(in, split_lines(object.text(), a[0] != nullptr && a[0]->truth()));
  }
  return class_method(in, object, name, args);
}

}  // namespace gyre::text::jinja
