#include <algorithm>

#include "text/jinja/interpreter.h"
#include "text/jinja/print.h"

namespace gyre::text::jinja {
namespace {

// All of Python's method names: a template can ask whether they are defined, and they hide keys
// of a dict. What is missing below is refused when it is called.
constexpr std::string_view kTextMethods[] = {
    "capitalize",   "casefold",    "center",    "count",      "encode",       "endswith",
    "expandtabs",   "find",        "format",    "format_map", "index",        "isalnum",
    "isalpha",      "isascii",     "isdecimal", "isdigit",    "isidentifier", "islower",
    "isnumeric",    "isprintable", "isspace",   "istitle",    "isupper",      "join",
    "ljust",        "lower",       "lstrip",    "maketrans",  "partition",    "removeprefix",
    "removesuffix", "replace",     "rfind",     "rindex",     "rjust",        "rpartition",
    "rsplit",       "rstrip",      "split",     "splitlines", "startswith",   "strip",
    "swapcase",     "title",       "translate", "upper",      "zfill"};
constexpr std::string_view kListMethods[] = {"append", "clear",   "copy",   "count",
                                             "extend", "index",   "insert", "pop",
                                             "remove", "reverse", "sort"};
constexpr std::string_view kTupleMethods[] = {"count", "index"};
constexpr std::string_view kDictMethods[] = {"clear",      "copy",   "fromkeys", "get",
                                             "items",      "keys",   "pop",      "popitem",
                                             "setdefault", "update", "values"};

template <size_t N>
bool among(const std::string_view (&names)[N], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

Error refused(const Interpreter& in, const Value& object, std::string_view name) {
  return in.error(std::string(type_name(object)) + "." + std::string(name), "refused",
                  "a method that templates may call");
}

Result<Value> view(Interpreter& in, std::vector<Value> items, std::string_view of) {
  GYRE_ASSIGN(Value out, in.list(std::move(items), ListKind::view));
  out.items().view_of = of;
  return out;
}

Result<Value> dict_method(Interpreter& in, const Value& object, const std::string& name,
                          const Args& args) {
  const auto& entries = object.entries().entries;
  if (name == "get") {
    GYRE_ASSIGN(const auto a, bind(in, name, args, {"key", "default"}, 1));
    if (!hashable(*a[0])) return in.error("get", type_name(*a[0]), "a hashable key");
    if (const Value* found = object.entries().find(*a[0])) return *found;
    return a[1] != nullptr ? *a[1] : Value::none();
  }
  if (name != "items" && name != "keys" && name != "values" && name != "copy")
    return refused(in, object, name);
  GYRE_TRY(bind(in, name, args, {}));
  if (name == "copy") {
    auto copy = std::make_shared<DictObject>();
    for (const auto& [key, value] : entries) copy->set(key, value);
    GYRE_TRY(in.budget().items(entries.size()));
    return Value::dict(std::move(copy));
  }
  std::vector<Value> out;
  for (const auto& [key, value] : entries) {
    if (name == "items") {
      GYRE_ASSIGN(Value pair, in.list({key, value}, ListKind::tuple));
      out.push_back(std::move(pair));
    } else {
      out.push_back(name == "keys" ? key : value);
    }
  }
  return view(in, std::move(out), name == "items" ? "items" : name == "keys" ? "keys" : "values");
}

// append, extend, insert and pop: beyond the sandbox of transformers, for templates that were
// written for looser ones. The list belongs to this render.
Result<Value> change_list(Interpreter& in, const Value& object, const std::string& name,
                          const Args& args) {
  std::vector<Value>& items = object.items().items;
  in.remember(object.object());
  GYRE_TRY(in.budget().items(1 + items.size() / 16));
  if (name == "append") {
    GYRE_ASSIGN(const auto a, bind(in, name, args, {"object"}, 1));
    items.push_back(*a[0]);
    return Value::none();
  }
  if (name == "extend") {
    GYRE_ASSIGN(const auto a, bind(in, name, args, {"iterable"}, 1));
    GYRE_ASSIGN(const std::vector<Value> more, in.iterate(*a[0]));
    items.insert(items.end(), more.begin(), more.end());
    return Value::none();
  }
  const auto size = static_cast<int64_t>(items.size());
  if (name == "insert") {
    GYRE_ASSIGN(const auto a, bind(in, name, args, {"index", "object"}, 2));
    GYRE_ASSIGN(int64_t at, int_argument(in, a[0], 0));
    at = std::clamp(at < 0 ? at + size : at, int64_t{0}, size);
    items.insert(items.begin() + at, *a[1]);
    return Value::none();
  }
  GYRE_ASSIGN(const auto a, bind(in, name, args, {"index"}));
  GYRE_ASSIGN(int64_t at, int_argument(in, a[0], -1));
  if (at < 0) at += size;
  if (at < 0 || at >= size) return in.error("pop", "index out of range");
  Value out = std::move(items[static_cast<size_t>(at)]);
  items.erase(items.begin() + at);
  return out;
}

Result<Value> list_method(Interpreter& in, const Value& object, const std::string& name,
                          const Args& args) {
  if (name == "append" || name == "extend" || name == "insert" || name == "pop")
    return change_list(in, object, name, args);
  if (name == "copy") return in.list(object.items().items);
  if (name != "count" && name != "index") return refused(in, object, name);
  GYRE_ASSIGN(const auto a, bind(in, name, args, {"value"}, 1));
  Int found = 0;
  const std::vector<Value>& items = object.items().items;
  for (size_t i = 0; i < items.size(); ++i) {
    GYRE_ASSIGN(const bool same, same_values(in, items[i], *a[0]));
    if (same && name == "index") return Value::integer(static_cast<Int>(i));
    found += same ? 1 : 0;
  }
  if (name == "index") return in.error("index", "not in the list");
  return Value::integer(found);
}

Result<Value> callable_method(Interpreter& in, const Value& object, const std::string& name,
                              const Args& args) {
  CallableObject& f = object.function();
  if (name == "cycle") {
    if (args.positional.empty()) return in.error("loop.cycle", "no items", "some");
    return args.positional[f.position % args.positional.size()];
  }
  if (name == "changed") {
    const Value now = Value::list(args.positional, ListKind::tuple);
    GYRE_ASSIGN(const bool same, same_values(in, f.last_changed, now));
    f.last_changed = now;
    return Value::boolean(!same);
  }
  const std::vector<Value>& items = f.receiver.items().items;
  if (name == "reset") {
    f.position = 0;
    return Value::none();
  }
  const Value out = items[f.position];
  f.position = (f.position + 1) % items.size();
  return out;
}

}  // namespace

bool has_method(const Value& object, std::string_view name) {
  switch (object.kind()) {
    case Kind::string:
      return among(kTextMethods, name);
    case Kind::dict:
      return among(kDictMethods, name);
    case Kind::list:
      return object.items().kind == ListKind::list    ? among(kListMethods, name)
             : object.items().kind == ListKind::tuple ? among(kTupleMethods, name)
                                                      : false;
    default:
      return false;
  }
}

Result<Value> call_method(Interpreter& in, const Value& object, const std::string& name,
                          const Args& args) {
  switch (object.kind()) {
    case Kind::string:
      return call_text_method(in, object, name, args);
    case Kind::dict:
      return dict_method(in, object, name, args);
    case Kind::list:
      return list_method(in, object, name, args);
    case Kind::callable:
      return callable_method(in, object, name, args);
    default:
      return refused(in, object, name);
  }
}

}  // namespace gyre::text::jinja
