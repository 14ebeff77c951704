// Filters over lists and dicts as wholes.
#include <algorithm>

#include "text/jinja/filter_parts.h"
#include "text/jinja/text_ops.h"

namespace gyre::text::jinja {
namespace {

Result<Value> default_filter(Interpreter& in, const Value& input, const Args& args) {
  GYRE_ASSIGN(const auto a, bind(in, "default", args, {"default_value", "boolean"}));
  const bool also_false = a[1] != nullptr && a[1]->truth();
  if (!input.is(Kind::undefined) && (!also_false || input.truth())) return input;
  return a[0] != nullptr ? *a[0] : Value::string("");
}

Result<Value> length_filter(Interpreter& in, const Value& input, const Args& args) {
  GYRE_TRY(bind(in, "length", args, {}));
  size_t count = 0;
  if (input.is(Kind::string)) {
    GYRE_TRY(in.budget().scan(input.text().size()));
    count = length(input.text());
  } else if (input.is(Kind::dict)) {
    count = input.entries().entries.size();
  } else if (input.is(Kind::list) && input.items().kind != ListKind::generator) {
    count = input.items().items.size();
  } else if (input.is(Kind::callable) && input.function().kind == CallKind::loop) {
    count = input.function().receiver.items().items.size();
  } else if (!input.is(Kind::undefined)) {
    return in.error("length", type_name(input), "a list, a dict or a string");
  }
  return Value::integer(static_cast<Int>(count));
}

Result<Value> join_filter(Interpreter& in, const Value& input, const Args& args) {
  GYRE_ASSIGN(const auto a, bind(in, "join", args, {"d", "attribute"}));
  GYRE_ASSIGN(const std::string separator, a[0] != nullptr ? in.str(*a[0]) : std::string());
  GYRE_ASSIGN(std::vector<Value> items, in.iterate(input));
  std::string out;
  for (size_t i = 0; i < items.size(); ++i) {
    GYRE_ASSIGN(const Value item, picked(in, items[i], a[1]));
    GYRE_ASSIGN(const std::string part, in.str(item));
    if (i > 0) out += separator;
    out += part;
    GYRE_TRY(in.budget().grow(separator.size() + part.size(), out.size()));
  }
  return Value::string(std::move(out));
}

Result<Value> list_filter(Interpreter& in, const Value& input, const Args& args) {
  GYRE_TRY(bind(in, "list", args, {}));
  GYRE_ASSIGN(std::vector<Value> items, in.iterate(input));
  return in.list(std::move(items));
}

Result<Value> items_filter(Interpreter& in, const Value& input, const Args& args) {
  GYRE_TRY(bind(in, "items", args, {}));
  if (!input.is(Kind::undefined) && !input.is(Kind::dict))
    return in.error("items", type_name(input), "a dict");
  std::vector<Value> out;
  if (input.is(Kind::dict)) {
    for (const auto& [key, value] : input.entries().entries) {
      GYRE_ASSIGN(Value pair, in.list({key, value}, ListKind::tuple));
      out.push_back(std::move(pair));
    }
  }
  return in.list(std::move(out), ListKind::generator);
}

Result<Value> first(Interpreter& in, const Value& input, const Args& args) {
  GYRE_TRY(bind(in, "first", args, {}));
  GYRE_ASSIGN(std::vector<Value> items, in.iterate(input));
  if (items.empty()) return Value::undefined("No first item, sequence was empty.");
  if (input.is_list(ListKind::generator))
    input.items().items.assign(items.begin() + 1, items.end());
  return items.front();
}

Result<Value> last(Interpreter& in, const Value& input, const Args& args) {
  GYRE_TRY(bind(in, "last", args, {}));
  if (input.is_list(ListKind::generator)) return in.error("last", "a generator", "a list");
  GYRE_ASSIGN(std::vector<Value> items, in.iterate(input));
  if (items.empty()) return Value::undefined("No last item, sequence was empty.");
  return items.back();
}

Result<Value> reverse_filter(Interpreter& in, const Value& input, const Args& args) {
  GYRE_TRY(bind(in, "reverse", args, {}));
  GYRE_ASSIGN(std::vector<Value> items, in.iterate(input));
  std::reverse(items.begin(), items.end());
  if (!input.is(Kind::string)) return in.list(std::move(items), ListKind::generator);
  std::string out;
  for (const Value& c : items) out += c.text();
  return in.text(std::move(out));
}

Result<Value> sum(Interpreter& in, const Value& input, const Args& args) {
  GYRE_ASSIGN(const auto a, bind(in, "sum", args, {"attribute", "start"}));
  GYRE_ASSIGN(const std::vector<Value> items, in.iterate(input));
  Value total = a[1] != nullptr ? *a[1] : Value::integer(0);
  for (const Value& item : items) {
    GYRE_ASSIGN(const Value part, picked(in, item, a[0]));
    GYRE_ASSIGN(total, binary_operator(in, "+", total, part));
  }
  return total;
}

Result<Value> batch(Interpreter& in, const Value& input, const Args& args) {
  GYRE_ASSIGN(const auto a, bind(in, "batch", args, {"linecount", "fill_with"}, 1));
  GYRE_ASSIGN(const int64_t size, int_argument(in, a[0], 1));
  if (size < 1 || size > 100000) return in.error("batch", std::to_string(size), "1 to 100000");
  GYRE_ASSIGN(const std::vector<Value> items, in.iterate(input));
  std::vector<Value> out, row;
  for (const Value& item : items) {
    if (static_cast<int64_t>(row.size()) == size)
      out.push_back(Value::list(std::exchange(row, {})));
    row.push_back(item);
  }
  if (!row.empty() && a[1] != nullptr && !a[1]->is(Kind::none)) {
    GYRE_TRY(in.budget().items(static_cast<size_t>(size)));
    row.resize(static_cast<size_t>(size), *a[1]);
  }
  if (!row.empty()) out.push_back(Value::list(std::move(row)));
  return in.list(std::move(out), ListKind::generator);
}

Result<Value> attr(Interpreter& in, const Value& input, const Args& args) {
  GYRE_ASSIGN(const auto a, bind(in, "attr", args, {"name"}, 1));
  GYRE_ASSIGN(const std::string name, in.str(*a[0]));
  if (input.is(Kind::dict) && !has_method(input, name))
    return Value::undefined("'dict object' has no attribute '" + name + "'");
  return in.attribute(input, name);
}

constexpr NamedFilter kFilters[] = {{"attr", attr},
                                    {"batch", batch},
                                    {"count", length_filter},
                                    {"d", default_filter},
                                    {"default", default_filter},
                                    {"first", first},
                                    {"items", items_filter},
                                    {"join", join_filter},
                                    {"last", last},
                                    {"length", length_filter},
                                    {"list", list_filter},
                                    {"reverse", reverse_filter},
                                    {"sum", sum}};

}  // namespace

Result<Value> picked(Interpreter& in, const Value& item, const Value* path) {
  if (path == nullptr || path->is(Kind::none)) return item;
  if (path->is_integral()) return in.item(item, *path);
  GYRE_ASSIGN(const std::string names, in.str(*path));
  Value value = item;
  for (const std::string& part : split(names, ".", -1)) {
    const bool digits = !part.empty() && part.size() < 10 &&
                        part.find_first_not_of("0123456789") == std::string::npos;
    const Value key = digits ? Value::integer(std::stoll(part)) : Value::string(part);
    GYRE_ASSIGN(value, in.item(value, key));
  }
  return value;
}

FilterFn find_list_filter(std::string_view name) {
  for (const NamedFilter& f : kFilters)
    if (f.name == name) return f.run;
  return nullptr;
}

}  // namespace gyre::text::jinja
