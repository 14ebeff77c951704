#include <algorithm>
#include <cmath>

#include "text/jinja/interpreter.h"
#include "text/jinja/text_ops.h"

namespace gyre::text::jinja {
namespace {

Error mismatch(const Interpreter& in, std::string_view op, const Value& a, const Value& b) {
  if (a.is(Kind::undefined)) return in.is_undefined(a);
  if (b.is(Kind::undefined)) return in.is_undefined(b);
  return in.error("operator " + std::string(op),
                  std::string(type_name(a)) + " and " + std::string(type_name(b)),
                  "types that go together");
}

Result<Value> too_large(const Interpreter& in) {
  return in.error("integer", "too large", "at most 127 bits");
}

Int floor_div(Int a, Int b) {
  const Int q = a / b;
  return (a % b != 0 && ((a < 0) != (b < 0))) ? q - 1 : q;
}

Result<Value> int_power(Interpreter& in, Int base, Int exponent) {
  if (exponent < 0) {
    if (base == 0) return in.error("division by zero");
    return Value::real(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  Int out = 1;
  if (base == 0 || base == 1 || base == -1)
    return Value::integer(exponent == 0 ? 1 : base == -1 && exponent % 2 == 0 ? 1 : base);
  for (; exponent > 0; --exponent)  // overflows after 127 rounds at the latest
    if (__builtin_mul_overflow(out, base, &out)) return too_large(in);
  return Value::integer(out);
}

Result<Value> int_operator(Interpreter& in, const std::string& op, Int a, Int b) {
  Int out = 0;
  if (op == "+" || op == "-" || op == "*") {
    const bool over = op == "+"   ? __builtin_add_overflow(a, b, &out)
                      : op == "-" ? __builtin_sub_overflow(a, b, &out)
                                  : __builtin_mul_overflow(a, b, &out);
    if (over) return too_large(in);
    return Value::integer(out);
  }
  if (op == "**") return int_power(in, a, b);
  if (b == 0) return in.error("division by zero");
  if (op == "/") return Value::real(static_cast<double>(a) / static_cast<double>(b));
  if (b == -1) return int_operator(in, op == "//" ? "*" : "-", a, op == "//" ? b : a);
  const Int quotient = floor_div(a, b);
  return Value::integer(op == "//" ? quotient : a - quotient * b);
}

Result<Value> real_operator(Interpreter& in, const std::string& op, double a, double b) {
  if (op == "+") return Value::real(a + b);
  if (op == "-") return Value::real(a - b);
  if (op == "*") return Value::real(a * b);
  if (op == "**") {
    const double out = std::pow(a, b);
    if (std::isnan(out) && !std::isnan(a) && !std::isnan(b))
      return in.error("power", "a complex number", "a real one");
    return Value::real(out);
  }
  if (b == 0) return in.error("division by zero");
  if (op == "/") return Value::real(a / b);
  double rest = std::fmod(a, b), quotient = (a - rest) / b;
  if (rest == 0) {
    rest = std::copysign(0.0, b);
  } else if ((rest < 0) != (b < 0)) {
    rest += b;
    quotient -= 1;
  }
  if (op == "%") return Value::real(rest);
  if (quotient == 0) return Value::real(std::copysign(0.0, a / b));
  const double whole = std::floor(quotient);
  return Value::real(quotient - whole > 0.5 ? whole + 1 : whole);
}

Result<Value> repeat(Interpreter& in, const Value& what, Int times) {
  if (times < 0) times = 0;
  const bool is_text = what.is(Kind::string);
  const size_t unit = is_text ? what.text().size() : what.items().items.size();
  if (unit == 0) times = 0;
  if (times > (Int{1} << 40)) return in.error("repetition", "too long");
  const size_t count = static_cast<size_t>(times);
  if (unit > (size_t{1} << 20) && count > (size_t{1} << 20))
    return in.error("repetition", "too long");
  if (is_text) {
    GYRE_TRY(in.budget().text(unit * count));
    std::string out;
    out.reserve(unit * count);
    for (size_t i = 0; i < count; ++i) out += what.text();
    return Value::string(std::move(out), what.markup());
  }
  GYRE_TRY(in.budget().items(unit * count));
  std::vector<Value> out;
  for (size_t i = 0; i < count; ++i)
    out.insert(out.end(), what.items().items.begin(), what.items().items.end());
  return Value::list(std::move(out), what.items().kind);
}

bool repeats(const Value& what) {
  return what.is(Kind::string) || what.is_list(ListKind::list) || what.is_list(ListKind::tuple);
}

Result<Value> add(Interpreter& in, const Value& a, const Value& b) {
  if (a.is(Kind::string) && b.is(Kind::string)) {
    const bool markup = a.markup() || b.markup();
    std::string out = markup && !a.markup() ? escape_html(a.text()) : a.text();
    out += markup && !b.markup() ? escape_html(b.text()) : b.text();
    return in.text(std::move(out), markup);
  }
  if (repeats(a) && a.is(Kind::list) && b.is_list(a.items().kind)) {
    std::vector<Value> out = a.items().items;
    out.insert(out.end(), b.items().items.begin(), b.items().items.end());
    return in.list(std::move(out), a.items().kind);
  }
  return mismatch(in, "+", a, b);
}

}  // namespace

Result<Value> binary_operator(Interpreter& in, const std::string& op, const Value& a,
                              const Value& b) {
  if (a.is_integral() && b.is_integral()) return int_operator(in, op, a.as_int(), b.as_int());
  if (a.is_number() && b.is_number()) return real_operator(in, op, a.as_double(), b.as_double());
  if (op == "+") return add(in, a, b);
  if (op == "*" && repeats(a) && b.is_integral()) return repeat(in, a, b.as_int());
  if (op == "*" && repeats(b) && a.is_integral()) return repeat(in, b, a.as_int());
  if (op == "%" && a.is(Kind::string)) return percent_format(in, a.text(), b);
  return mismatch(in, op, a, b);
}

Result<bool> same_values(Interpreter& in, const Value& a, const Value& b) {
  uint64_t work = kMaxEqualWork;
  const bool same = equal(a, b, 200, &work);
  GYRE_TRY(in.budget().step(1 + kMaxEqualWork - work));
  return same;
}

Result<bool> less(Interpreter& in, const Value& a, const Value& b) {
  GYRE_TRY(in.budget().step());
  if (a.is_integral() && b.is_integral()) return a.as_int() < b.as_int();
  if (a.is_number() && b.is_number()) return a.as_double() < b.as_double();
  if (a.is(Kind::string) && b.is(Kind::string)) {
    GYRE_TRY(in.budget().scan(std::min(a.text().size(), b.text().size())));
    return a.text() < b.text();  // UTF-8 sorts as its code points do
  }
  if (repeats(a) && a.is(Kind::list) && b.is_list(a.items().kind)) {
    const Level level(in.budget());
    if (!level.status().ok()) return Error(level.status().error());
    const std::vector<Value>&x = a.items().items, &y = b.items().items;
    for (size_t i = 0; i < x.size() && i < y.size(); ++i) {
      GYRE_ASSIGN(const bool same, same_values(in, x[i], y[i]));
      if (!same) return less(in, x[i], y[i]);
    }
    return x.size() < y.size();
  }
  return mismatch(in, "<", a, b);
}

Result<bool> contains(Interpreter& in, const Value& container, const Value& item) {
  switch (container.kind()) {
    case Kind::undefined:
      return false;
    case Kind::string:
      if (!item.is(Kind::string)) {
        if (item.is(Kind::undefined)) return in.is_undefined(item);
        return in.error("in a string", type_name(item), "a string");
      }
      GYRE_TRY(in.budget().scan(container.text().size()));
      return container.text().find(item.text()) != std::string::npos;
    case Kind::dict:
      if (!hashable(item)) return in.error("in a dict", type_name(item), "a hashable value");
      return container.entries().find(item) != nullptr;
    case Kind::list: {
      GYRE_ASSIGN(const std::vector<Value> items, in.iterate(container));
      for (const Value& one : items) {
        GYRE_ASSIGN(const bool same, same_values(in, one, item));
        if (same) return true;
      }
      return false;
    }
    default:
      return in.error("in", type_name(container), "a list, a dict or a string");
  }
}

Result<bool> compare_values(Interpreter& in, const std::string& op, const Value& a,
                            const Value& b) {
  if (op == "==" || op == "!=") {
    GYRE_ASSIGN(const bool same, same_values(in, a, b));
    return same == (op == "==");
  }
  if (op == "in" || op == "not in") {
    GYRE_ASSIGN(const bool found, contains(in, b, a));
    return found == (op == "in");
  }
  if (op == "<") return less(in, a, b);
  if (op == ">") return less(in, b, a);
  if (a.is_number() || repeats(a)) {
    GYRE_ASSIGN(const bool same, same_values(in, a, b));
    if (same) return true;
  }
  if (a.is(Kind::real) && std::isnan(a.as_double())) return false;
  if (b.is(Kind::real) && std::isnan(b.as_double())) return false;
  return op == "<=" ? less(in, a, b) : less(in, b, a);
}

namespace {

// Python's slice.indices(): the first index, the step, and how many.
struct Indices {
  Int first = 0, step = 1;
  size_t count = 0;
};

Result<Indices> slice_indices(Interpreter& in, size_t size, const Value& start, const Value& stop,
                              const Value& step) {
  for (const Value* v : {&start, &stop, &step})
    if (!v->is(Kind::none) && !v->is_integral())
      return in.error("slice", type_name(*v), "integers or none");
  Indices out;
  const Int n = static_cast<Int>(size);
  if (!step.is(Kind::none)) out.step = step.as_int();
  if (out.step == 0) return in.error("slice step", "0");
  const Int low = out.step > 0 ? 0 : -1, high = out.step > 0 ? n : n - 1;
  const auto clamp = [&](const Value& v, Int fallback) {
    if (v.is(Kind::none)) return fallback;
    const Int at = v.as_int() < 0 ? v.as_int() + n : v.as_int();
    return std::min(std::max(at, low), high);
  };
  out.first = clamp(start, out.step > 0 ? low : high);
  const Int last = clamp(stop, out.step > 0 ? high : low);
  if (out.step > 0 && last > out.first) {
    out.count = static_cast<size_t>((last - out.first - 1) / out.step + 1);
  } else if (out.step < 0 && last < out.first) {
    out.count = static_cast<size_t>((last - out.first + 1) / out.step + 1);
  }
  return out;
}

}  // namespace

Result<Value> slice_value(Interpreter& in, const Value& object, const Value& start,
                          const Value& stop, const Value& step) {
  if (object.is(Kind::undefined)) return in.is_undefined(object);
  const bool rows = object.is(Kind::list) && object.items().kind != ListKind::generator &&
                    object.items().kind != ListKind::view;
  if (!rows && !object.is(Kind::string))
    return Value::undefined(std::string(type_name(object)) + " object has no slices");
  if (object.is(Kind::string)) GYRE_TRY(in.budget().scan(object.text().size()));
  const size_t size = rows ? object.items().items.size() : length(object.text());
  GYRE_ASSIGN(const Indices at, slice_indices(in, size, start, stop, step));
  if (!rows && at.step == 1) {
    const std::string& text = object.text();
    const size_t begin = byte_offset(text, static_cast<size_t>(at.first));
    const size_t bytes = byte_offset(std::string_view(text).substr(begin), at.count);
    return in.text(text.substr(begin, bytes), object.markup());
  }
  std::vector<Value> items;
  GYRE_TRY(in.budget().items(at.count));
  if (rows) {
    for (size_t i = 0; i < at.count; ++i)
      items.push_back(
          object.items().items[static_cast<size_t>(at.first + static_cast<Int>(i) * at.step)]);
    return Value::list(std::move(items), object.items().kind);
  }
  std::string out;
  const std::vector<std::string> points = code_points(object.text());
  for (size_t i = 0; i < at.count; ++i)
    out += points[static_cast<size_t>(at.first + static_cast<Int>(i) * at.step)];
  return in.text(std::move(out), object.markup());
}

Result<std::vector<const Value*>> bind(const Interpreter& in, std::string_view what,
                                       const Args& args,
                                       std::initializer_list<std::string_view> names,
                                       size_t required) {
  std::vector<const Value*> out(names.size(), nullptr);
  if (args.positional.size() > names.size())
    return in.error(what, std::to_string(args.positional.size()) + " arguments",
                    "at most " + std::to_string(names.size()));
  for (size_t i = 0; i < args.positional.size(); ++i) out[i] = &args.positional[i];
  for (const auto& [name, value] : args.named) {
    const auto it = std::find(names.begin(), names.end(), name);
    if (it == names.end()) return in.error(what, "argument " + name, "a known name");
    const Value*& place = out[static_cast<size_t>(it - names.begin())];
    if (place != nullptr) return in.error(what, "argument " + name, "it once");
    place = &value;
  }
  for (size_t i = 0; i < required; ++i)
    if (out[i] == nullptr)
      return in.error(what, "no argument " + std::string(names.begin()[i]), "one");
  return out;
}

Result<int64_t> int_argument(const Interpreter& in, const Value* value, int64_t fallback) {
  if (value == nullptr) return fallback;
  if (value->is(Kind::undefined)) return in.is_undefined(*value);
  if (!value->is_integral() || value->as_int() > INT64_MAX || value->as_int() < INT64_MIN)
    return in.error("argument", type_name(*value), "an integer");
  return static_cast<int64_t>(value->as_int());
}

}  // namespace gyre::text::jinja
