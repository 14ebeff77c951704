#include <cstring>

#include "text/jinja/interpreter.h"
#include "text/jinja/print.h"

namespace gyre::text::jinja {
namespace {

constexpr std::string_view kFunctions[] = {
    "range", "dict", "namespace", "cycler", "joiner", "raise_exception", "strftime_now"};
constexpr int64_t kMaxRange = 100000;  // as Jinja's sandbox

Result<Value> range(Interpreter& in, const Args& args) {
  GYRE_ASSIGN(const auto a, bind(in, "range", args, {"start", "stop", "step"}, 1));
  GYRE_ASSIGN(int64_t start, int_argument(in, a[0], 0));
  GYRE_ASSIGN(int64_t stop, int_argument(in, a[1], 0));
  GYRE_ASSIGN(const int64_t step, int_argument(in, a[2], 1));
  if (a[1] == nullptr) stop = std::exchange(start, 0);
  if (step == 0) return in.error("range", "step 0");
  const Int distance = step > 0 ? Int{stop} - start : Int{start} - stop;
  const Int width = step > 0 ? Int{step} : -Int{step};
  const Int count = distance <= 0 ? 0 : (distance + width - 1) / width;
  if (count > kMaxRange)
    return in.error("range", int_text(count) + " numbers", "at most " + std::to_string(kMaxRange));
  std::vector<Value> out;
  for (Int i = 0; i < count; ++i) out.push_back(Value::integer(start + i * step));
  return in.list(std::move(out), ListKind::range);
}

// What dict(...) and namespace(...) take: a dict or pairs, then names.
Result<std::shared_ptr<DictObject>> gather(Interpreter& in, const Args& args) {
  auto out = std::make_shared<DictObject>();
  if (args.positional.size() > 1) return in.error("dict", "several arguments", "one and names");
  if (args.positional.size() == 1 && args.positional[0].is(Kind::dict)) {
    for (const auto& [key, value] : args.positional[0].entries().entries) out->set(key, value);
  } else if (args.positional.size() == 1) {
    GYRE_ASSIGN(const std::vector<Value> pairs, in.iterate(args.positional[0]));
    for (const Value& pair : pairs) {
      GYRE_ASSIGN(const std::vector<Value> two, in.iterate(pair));
      if (two.size() != 2 || !hashable(two[0])) return in.error("dict", "an item", "a pair");
      out->set(two[0], two[1]);
    }
  }
  for (const auto& [name, value] : args.named) out->set(name, value);
  GYRE_TRY(in.budget().items(out->entries.size()));
  return out;
}

Result<Value> make_namespace(Interpreter& in, const Args& args) {
  GYRE_ASSIGN(std::shared_ptr<DictObject> attributes, gather(in, args));
  in.remember(attributes);
  return Value::name_space(std::move(attributes));
}

Result<Value> cycler(Interpreter& in, const Args& args) {
  if (args.positional.empty()) return in.error("cycler", "no items", "some");
  auto out = std::make_shared<CallableObject>(CallKind::cycler, "cycler");
  out->receiver = Value::list(args.positional);
  return Value::callable(std::move(out));
}

Result<Value> joiner(Interpreter& in, const Args& args) {
  GYRE_ASSIGN(const auto a, bind(in, "joiner", args, {"sep"}));
  auto out = std::make_shared<CallableObject>(CallKind::joiner, "joiner");
  out->receiver = a[0] != nullptr ? *a[0] : Value::string(", ");
  return Value::callable(std::move(out));
}

// One directive at a time, so that nothing but plain C89 directives and glibc's padding flags
// reaches the C library.
Result<Value> strftime_now(Interpreter& in, const Args& args) {
  GYRE_ASSIGN(const auto a, bind(in, "strftime_now", args, {"format"}, 1));
  if (!a[0]->is(Kind::string)) return in.error("strftime_now", type_name(*a[0]), "a string");
  if (!in.now()) return in.error("strftime_now", "no clock", "one given by the caller");
  const std::string& format = a[0]->text();
  std::string out;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      out += format[i];
      continue;
    }
    std::string directive = "%";
    if (std::strchr("-_0^#", format[i + 1]) != nullptr && i + 2 < format.size())
      directive += format[++i];
    const char c = format[++i];
    if (c == 'f') {
      out += "000000";
    } else if (std::strchr("aAbBcCdDeFgGhHIjklmMnprRStTuUVwWxXyY%", c) != nullptr && c != '\0') {
      directive += c;
      char text[128];
      out.append(text, std::strftime(text, sizeof text, directive.c_str(), &*in.now()));
    } else if (c != 'z' && c != 'Z') {  // the zone of a naive time is empty
      out += directive;
      out += c;
    }
    GYRE_TRY(in.budget().step());
  }
  return in.text(std::move(out));
}

}  // namespace

void add_globals(DictObject& globals) {
  for (const std::string_view name : kFunctions)
    if (globals.find(name) == nullptr)
      globals.set(name, Value::callable(std::make_shared<CallableObject>(CallKind::function,
                                                                         std::string(name))));
}

Result<Value> call_function(Interpreter& in, const std::string& name, const Args& args) {
  if (name == "range") return range(in, args);
  if (name == "namespace") return make_namespace(in, args);
  if (name == "cycler") return cycler(in, args);
  if (name == "joiner") return joiner(in, args);
  if (name == "strftime_now") return strftime_now(in, args);
  if (name == "dict") {
    GYRE_ASSIGN(std::shared_ptr<DictObject> dict, gather(in, args));
    return Value::dict(std::move(dict));
  }
  GYRE_ASSIGN(const auto a, bind(in, name, args, {"message"}, 1));
  GYRE_ASSIGN(const std::string message, in.str(*a[0]));
  return in.error(name, message);
}

}  // namespace gyre::text::jinja
