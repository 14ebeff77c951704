// Filters that make a text or a number.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "text/jinja/interpreter.h"
#include "text/jinja/json_value.h"
#include "text/jinja/print.h"
#include "text/jinja/text_ops.h"
#include "text/unicode.h"

namespace gyre::text::jinja {
namespace {

bool given(const Value* v) {
  return v != nullptr && !v->is(Kind::none);
}

// The input of a text filter, as Python's str() gives it.
Result<std::string> soft(Interpreter& in, const Value& value) {
  GYRE_ASSIGN(std::string text, in.str(value));
  GYRE_TRY(in.budget().scan(text.size()));
  return text;
}

template <std::string (*change)(std::string_view)>
Result<Value> case_filter(Interpreter& in, const Value& input, const Args& args) {
  GYRE_TRY(bind(in, "filter", args, {}));
  GYRE_ASSIGN(const std::string text, soft(in, input));
  return in.text(change(text), input.markup());
}

Result<Value> trim(Interpreter& in, const Value& input, const Args& args) {
  GYRE_ASSIGN(const auto a, bind(in, "trim", args, {"chars"}));
  GYRE_ASSIGN(const std::string text, soft(in, input));
  if (!given(a[0])) return in.text(std::string(strip(text)), input.markup());
  if (!a[0]->is(Kind::string)) return in.error("trim", type_name(*a[0]), "a string");
  GYRE_TRY(in.budget().step(1 + a[0]->text().size() * (text.size() / 64 + 1)));
  return in.text(std::string(strip(text, &a[0]->text())), input.markup());
}

Result<Value> replace_filter(Interpreter& in, const Value& input, const Args& args) {
  GYRE_ASSIGN(const auto a, bind(in, "replace", args, {"old", "new", "count"}, 2));
  GYRE_ASSIGN(const std::string text, soft(in, input));
  GYRE_ASSIGN(const std::string from, in.str(*a[0]));
  GYRE_ASSIGN(const std::string to, in.str(*a[1]));
  GYRE_ASSIGN(const int64_t limit, int_argument(in, given(a[2]) ? a[2] : nullptr, -1));
  const size_t found = std::min(count(text, from), static_cast<size_t>(limit));
  GYRE_TRY(in.budget().text(text.size() + found * to.size()));
  return Value::string(replace(text, from, to, limit));
}

Result<Value> indent(Interpreter& in, const Value& input, const Args& args) {
  GYRE_ASSIGN(const auto a, bind(in, "indent", args, {"width", "first", "blank"}));
  GYRE_ASSIGN(const std::string text, soft(in, input));
  std::string margin;
  if (a[0] != nullptr && a[0]->is(Kind::string)) {
    margin = a[0]->text();
  } else {
    GYRE_ASSIGN(const int64_t width, int_argument(in, a[0], 4));
    if (width > 10000) return in.error("indent", std::to_string(width), "at most 10000");
    margin.assign(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
  }
  const bool blank = a[2] != nullptr && a[2]->truth();
  const std::vector<std::string> lines = split_lines(text + "\n");
  GYRE_TRY(in.budget().text(text.size() + lines.size() * (margin.size() + 1)));
  std::string out = a[1] != nullptr && a[1]->truth() ? margin : "";
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out += "\n" + (blank || !lines[i].empty() ? margin : "");
    out += lines[i];
  }
  return Value::string(std::move(out), input.markup());
}

Result<Value> string_filter(Interpreter& in, const Value& input, const Args& args) {
  GYRE_TRY(bind(in, "string", args, {}));
  if (input.is(Kind::string)) return input;
  GYRE_ASSIGN(std::string text, in.str(input));
  return Value::string(std::move(text));
}

Result<Value> safe(Interpreter& in, const Value& input, const Args& args) {
  GYRE_TRY(bind(in, "safe", args, {}));
  GYRE_ASSIGN(std::string text, in.str(input));
  return Value::string(std::move(text), true);
}

Result<Value> escape(Interpreter& in, const Value& input, const Args& args) {
  GYRE_TRY(bind(in, "escape", args, {}));
  if (input.markup()) return input;
  GYRE_ASSIGN(const std::string text, soft(in, input));
  return in.text(escape_html(text), true);
}

Result<Value> format_filter(Interpreter& in, const Value& input, const Args& args) {
  if (!args.named.empty() && !args.positional.empty())
    return in.error("format", "both kinds of arguments", "one kind");
  GYRE_ASSIGN(const std::string text, in.str(input));
  if (args.named.empty())
    return percent_format(in, text, Value::list(args.positional, ListKind::tuple));
  auto dict = std::make_shared<DictObject>();
  for (const auto& [name, value] : args.named) dict->set(name, value);
  return percent_format(in, text, Value::dict(std::move(dict)));
}

Result<Value> center(Interpreter& in, const Value& input, const Args& args) {
  GYRE_ASSIGN(const auto a, bind(in, "center", args, {"width"}));
  GYRE_ASSIGN(const int64_t width, int_argument(in, a[0], 80));
  GYRE_ASSIGN(const Value text, string_filter(in, input, {}));
  return call_text_method(in, text, "center", {{Value::integer(width)}, {}});
}

Result<Value> wordcount(Interpreter& in, const Value& input, const Args& args) {
  GYRE_TRY(bind(in, "wordcount", args, {}));
  GYRE_ASSIGN(const std::string text, soft(in, input));
  Int words = 0;
  bool inside = false;
  for (size_t pos = 0; pos < text.size();) {
    const CodePoint c = decode_lenient(text, pos);
    const CharClass cls = char_class(c.value);
    const bool word = cls == CharClass::letter || cls == CharClass::number || c.value == '_';
    words += word && !inside ? 1 : 0;
    inside = word;
    pos += c.bytes;
  }
  return Value::integer(words);
}

Result<Value> tojson(Interpreter& in, const Value& input, const Args& args) {
  GYRE_ASSIGN(const auto a,
              bind(in, "tojson", args, {"ensure_ascii", "indent", "separators", "sort_keys"}));
  JsonStyle style;
  style.ensure_ascii = a[0] != nullptr && a[0]->truth();
  style.sort_keys = a[3] != nullptr && a[3]->truth();
  if (given(a[1])) {
    style.pretty = true;
    style.item_separator = ",";
    if (a[1]->is(Kind::string)) {
      style.indent = a[1]->text();
    } else {
      GYRE_ASSIGN(const int64_t width, int_argument(in, a[1], 0));
      if (width > 1000) return in.error("tojson indent", std::to_string(width), "at most 1000");
      style.indent.assign(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
    }
  }
  if (given(a[2])) {
    GYRE_ASSIGN(const std::vector<Value> pair, in.iterate(*a[2]));
    if (pair.size() != 2 || !pair[0].is(Kind::string) || !pair[1].is(Kind::string))
      return in.error("tojson separators", type_name(*a[2]), "two strings");
    style.item_separator = pair[0].text();
    style.key_separator = pair[1].text();
  }
  std::string out;
  const Status status = append_json(in.budget(), input, style, out);
  if (!status.ok() && status.error().code == ErrorCode::usage) return in.error(status.error().text);
  if (!status.ok()) return Error(status.error());
  return Value::string(std::move(out));
}

// Not in transformers: some templates of DeepSeek call it.
Result<Value> from_json(Interpreter& in, const Value& input, const Args& args) {
  GYRE_TRY(bind(in, "from_json", args, {}));
  if (!input.is(Kind::string)) return in.error("from_json", type_name(input), "a string");
  GYRE_TRY(in.budget().items(input.text().size()));  // no value without a byte
  Result<Value> out = parse_json(input.text());
  if (!out.ok()) return in.error("from_json", out.error().text);
  return out;
}

Result<Value> abs_filter(Interpreter& in, const Value& input, const Args& args) {
  GYRE_TRY(bind(in, "abs", args, {}));
  if (input.is(Kind::real)) return Value::real(std::fabs(input.as_double()));
  if (!input.is_integral()) return in.error("abs", type_name(input), "a number");
  return input.as_int() < 0 ? binary_operator(in, "-", Value::integer(0), input)
                            : Value::integer(input.as_int());
}

// Python's int(text, base); false if that raises or the number has more than 63 bits.
bool int_from_text(std::string_view text, int base, Int* out) {
  std::string plain(strip(text));
  plain.erase(std::remove(plain.begin(), plain.end(), '_'), plain.end());
  std::string_view digits = plain;
  const bool minus = digits.starts_with('-');
  if (minus || digits.starts_with('+')) digits.remove_prefix(1);
  const char mark =
      digits.size() > 2 && digits[0] == '0' ? static_cast<char>(digits[1] | 0x20) : '\0';
  const int prefix = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
  if (prefix != 0 && (base == prefix || base == 0)) digits.remove_prefix(2);
  if (base == 0) base = prefix != 0 ? prefix : 10;
  if (base < 2 || base > 36 || digits.starts_with('-')) return false;
  int64_t value = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (error != std::errc() || end != digits.data() + digits.size()) return false;
  *out = minus ? -Int{value} : Int{value};
  return true;
}

Result<Value> int_filter(Interpreter& in, const Value& input, const Args& args) {
  GYRE_ASSIGN(const auto a, bind(in, "int", args, {"default", "base"}));
  GYRE_ASSIGN(const int64_t base, int_argument(in, a[1], 10));
  const Value fallback = a[0] != nullptr ? *a[0] : Value::integer(0);
  Int whole = 0;
  double number = 0;
  if (input.is_integral()) return Value::integer(input.as_int());
  if (input.is(Kind::undefined)) return in.is_undefined(input);
  if (input.is(Kind::real)) {
    number = input.as_double();
  } else if (!input.is(Kind::string)) {
    return fallback;
  } else {
    GYRE_TRY(in.budget().scan(input.text().size()));
    if (int_from_text(input.text(), static_cast<int>(std::clamp<int64_t>(base, 0, 99)), &whole))
      return Value::integer(whole);
    if (!float_from_text(input.text(), &number)) return fallback;
  }
  if (!(std::fabs(number) < 1e38)) return fallback;
  return Value::integer(static_cast<Int>(number));
}

Result<Value> float_filter(Interpreter& in, const Value& input, const Args& args) {
  GYRE_ASSIGN(const auto a, bind(in, "float", args, {"default"}));
  const Value fallback = a[0] != nullptr ? *a[0] : Value::real(0);
  if (input.is_number()) return Value::real(input.as_double());
  if (input.is(Kind::undefined)) return in.is_undefined(input);
  double number = 0;
  if (!input.is(Kind::string) || !float_from_text(input.text(), &number)) return fallback;
  return Value::real(number);
}

Result<Value> round_filter(Interpreter& in, const Value& input, const Args& args) {
  GYRE_ASSIGN(const auto a, bind(in, "round", args, {"precision", "method"}));
  GYRE_ASSIGN(const int64_t precision, int_argument(in, a[0], 0));
  GYRE_ASSIGN(const std::string method, a[1] != nullptr ? in.str(*a[1]) : std::string("common"));
  if (!input.is_number()) return in.error("round", type_name(input), "a number");
  if (precision < 0 || precision > 300)
    return in.error("round precision", std::to_string(precision), "0 to 300");
  const double value = input.as_double();
  if (method == "common") {
    if (input.is_integral()) return Value::integer(input.as_int());
    if (!std::isfinite(value)) return input;
    char text[700];
    std::snprintf(text, sizeof text, "%.*f", static_cast<int>(precision), value);
    return Value::real(parse_double(text));
  }
  if (method != "ceil" && method != "floor")
    return in.error("round method", method, "common, ceil or floor");
  const double power = std::pow(10.0, static_cast<double>(precision));
  const double whole = method == "ceil" ? std::ceil(value * power) : std::floor(value * power);
  if (!std::isfinite(whole)) return in.error("round", "not a finite number");
  return Value::real(whole / power);
}

constexpr NamedFilter kFilters[] = {{"abs", abs_filter},
                                    {"capitalize", case_filter<capitalize>},
                                    {"center", center},
                                    {"e", escape},
                                    {"escape", escape},
                                    {"float", float_filter},
                                    {"format", format_filter},
                                    {"from_json", from_json},
                                    {"indent", indent},
                                    {"int", int_filter},
                                    {"lower", case_filter<lower>},
                                    {"replace", replace_filter},
                                    {"round", round_filter},
                                    {"safe", safe},
                                    {"string", string_filter},
                                    {"title", case_filter<title_filter>},
                                    {"tojson", tojson},
                                    {"trim", trim},
                                    {"upper", case_filter<upper>},
                                    {"wordcount", wordcount}};

}  // namespace

FilterFn find_text_filter(std::string_view name) {
  for (const NamedFilter& f : kFilters)
    if (f.name == name) return f.run;
  return nullptr;
}

}  // namespace gyre::text::jinja
