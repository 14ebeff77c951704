// Filters that order items or choose among them.
#include <algorithm>

#include "text/jinja/filter_parts.h"
#include "text/jinja/names.h"
#include "text/jinja/text_ops.h"

namespace gyre::text::jinja {
namespace {

bool truth_of(const Value* v) {
  return v != nullptr && v->truth();
}

// What an item is compared by: text without regard to case, unless asked for.
Result<Value> sort_key(Interpreter& in, const Value& value, bool case_sensitive) {
  if (case_sensitive || !value.is(Kind::string)) return value;
  return in.text(lower(value.text()));
}

struct Keyed {
  Value key, item;
};

// Stable; the first failing comparison ends it with its error.
Status sort_keyed(Interpreter& in, std::vector<Keyed>& rows, bool reverse) {
  Status status;
  // Merge sort by hand: std::sort must not meet a comparison that fails or contradicts itself.
  std::vector<Keyed> other(rows.size());
  for (size_t width = 1; width < rows.size(); width *= 2) {
    for (size_t begin = 0; begin < rows.size(); begin += 2 * width) {
      const size_t middle = std::min(begin + width, rows.size());
      const size_t end = std::min(begin + 2 * width, rows.size());
      size_t left = begin, right = middle;
      for (size_t out = begin; out < end; ++out) {
        bool take_right = left == middle;
        if (left < middle && right < end) {
          GYRE_ASSIGN(take_right, reverse ? less(in, rows[left].key, rows[right].key)
                                          : less(in, rows[right].key, rows[left].key));
        }
        other[out] = std::move(take_right ? rows[right++] : rows[left++]);
      }
    }
    rows.swap(other);
  }
  return status;
}

std::vector<Value> items_of(std::vector<Keyed>&& rows) {
  std::vector<Value> items;
  items.reserve(rows.size());
  for (Keyed& row : rows) items.push_back(std::move(row.item));
  return items;
}

Result<Value> sort_filter(Interpreter& in, const Value& input, const Args& args) {
  GYRE_ASSIGN(const auto a, bind(in, "sort", args, {"reverse", "case_sensitive", "attribute"}));
  GYRE_ASSIGN(const std::vector<Value> items, in.iterate(input));
  std::vector<std::string> paths{""};
  if (a[2] != nullptr && a[2]->is(Kind::string)) paths = split(a[2]->text(), ",", -1);
  std::vector<Keyed> rows;
  for (const Value& item : items) {
    std::vector<Value> keys;
    for (const std::string& path : paths) {
      const Value text = Value::string(path);
      GYRE_ASSIGN(const Value part,
                  picked(in, item, a[2] != nullptr && a[2]->is(Kind::string) ? &text : a[2]));
      GYRE_ASSIGN(Value key, sort_key(in, part, truth_of(a[1])));
      keys.push_back(std::move(key));
    }
    Value key = keys.size() == 1 ? keys[0] : Value::list(std::move(keys));
    rows.push_back({std::move(key), item});
  }
  GYRE_TRY(sort_keyed(in, rows, truth_of(a[0])));
  return in.list(items_of(std::move(rows)));
}

Result<Value> dictsort(Interpreter& in, const Value& input, const Args& args) {
  GYRE_ASSIGN(const auto a, bind(in, "dictsort", args, {"case_sensitive", "by", "reverse"}));
  GYRE_ASSIGN(const std::string by, a[1] != nullptr ? in.str(*a[1]) : std::string("key"));
  if (input.is(Kind::undefined)) return in.is_undefined(input);
  if (!input.is(Kind::dict)) return in.error("dictsort", type_name(input), "a dict");
  if (by != "key" && by != "value") return in.error("dictsort by", by, "key or value");
  std::vector<Keyed> rows;
  for (const auto& [key, value] : input.entries().entries) {
    GYRE_ASSIGN(Value pair, in.list({key, value}, ListKind::tuple));
    GYRE_ASSIGN(Value by_what, sort_key(in, by == "key" ? key : value, truth_of(a[0])));
    rows.push_back({std::move(by_what), std::move(pair)});
  }
  GYRE_TRY(sort_keyed(in, rows, truth_of(a[2])));
  return in.list(items_of(std::move(rows)));
}

Result<Value> unique(Interpreter& in, const Value& input, const Args& args) {
  GYRE_ASSIGN(const auto a, bind(in, "unique", args, {"case_sensitive", "attribute"}));
  GYRE_ASSIGN(const std::vector<Value> items, in.iterate(input));
  DictObject seen;
  std::vector<Value> out;
  for (const Value& item : items) {
    GYRE_ASSIGN(const Value part, picked(in, item, a[1]));
    GYRE_ASSIGN(const Value key, sort_key(in, part, truth_of(a[0])));
    if (!hashable(key)) return in.error("unique", type_name(key), "hashable values");
    if (seen.find(key) != nullptr) continue;
    seen.set(key, Value::none());
    out.push_back(item);
  }
  return in.list(std::move(out), ListKind::generator);
}

template <bool largest>
Result<Value> extreme(Interpreter& in, const Value& input, const Args& args) {
  GYRE_ASSIGN(const auto a, bind(in, "min or max", args, {"case_sensitive", "attribute"}));
  GYRE_ASSIGN(const std::vector<Value> items, in.iterate(input));
  if (items.empty()) return Value::undefined("No aggregated item, sequence was empty.");
  Value best, best_key;
  for (size_t i = 0; i < items.size(); ++i) {
    GYRE_ASSIGN(const Value part, picked(in, items[i], a[1]));
    GYRE_ASSIGN(const Value key, sort_key(in, part, truth_of(a[0])));
    bool better = i == 0;
    if (!better) {
      GYRE_ASSIGN(better, largest ? less(in, best_key, key) : less(in, key, best_key));
    }
    if (!better) continue;
    best = items[i];
    best_key = key;
  }
  return best;
}

// jinja2 looks at the items of a true value only: nothing comes of none.
Result<std::vector<Value>> items_if_any(Interpreter& in, const Value& input) {
  if (!input.truth()) return std::vector<Value>();
  return in.iterate(input);
}

Result<Value> map_filter(Interpreter& in, const Value& input, const Args& args) {
  GYRE_ASSIGN(const std::vector<Value> items, items_if_any(in, input));
  const Value* path = nullptr;
  Value fallback;
  for (const auto& [name, value] : args.named) {
    if (args.positional.empty() && name == "attribute") path = &value;
    if (args.positional.empty() && name == "default") fallback = value;
  }
  if (path == nullptr && args.positional.empty())
    return in.error("map", "no argument", "a filter's name or attribute=");
  Args rest;
  std::string name;
  if (path == nullptr) {
    GYRE_ASSIGN(name, in.str(args.positional[0]));
    rest.positional.assign(args.positional.begin() + 1, args.positional.end());
    rest.named = args.named;
  }
  std::vector<Value> out;
  for (const Value& item : items) {
    GYRE_ASSIGN(Value value,
                path != nullptr ? picked(in, item, path) : in.filter(name, item, rest));
    if (path != nullptr && value.is(Kind::undefined) && !fallback.is(Kind::undefined))
      value = fallback;
    out.push_back(std::move(value));
  }
  return in.list(std::move(out), ListKind::generator);
}

// select, reject: the test on the item; selectattr, rejectattr: on an attribute of it.
template <bool keep, bool by_attribute>
Result<Value> choose(Interpreter& in, const Value& input, const Args& args) {
  GYRE_ASSIGN(std::vector<Value> items, items_if_any(in, input));
  const size_t lead = by_attribute ? 1 : 0;
  if (args.positional.size() < lead) return in.error("selectattr", "no argument", "an attribute");
  std::string test;
  Args rest;
  if (args.positional.size() > lead) {
    GYRE_ASSIGN(test, in.str(args.positional[lead]));
    rest.positional.assign(args.positional.begin() + static_cast<std::ptrdiff_t>(lead) + 1,
                           args.positional.end());
    rest.named = args.named;
  }
  std::vector<Value> out;
  for (Value& item : items) {
    GYRE_ASSIGN(const Value value, picked(in, item, by_attribute ? &args.positional[0] : nullptr));
    bool yes = value.truth();
    if (!test.empty()) {
      GYRE_ASSIGN(yes, in.test(test, value, rest));
    }
    if (yes == keep) out.push_back(std::move(item));
  }
  return in.list(std::move(out), ListKind::generator);
}

constexpr NamedFilter kFilters[] = {{"dictsort", dictsort},
                                    {"map", map_filter},
                                    {"max", extreme<true>},
                                    {"min", extreme<false>},
                                    {"reject", choose<false, false>},
                                    {"rejectattr", choose<false, true>},
                                    {"select", choose<true, false>},
                                    {"selectattr", choose<true, true>},
                                    {"sort", sort_filter},
                                    {"unique", unique}};

}  // namespace

FilterFn find_select_filter(std::string_view name) {
  for (const NamedFilter& f : kFilters)
    if (f.name == name) return f.run;
  return nullptr;
}

FilterFn find_filter(std::string_view name) {
  if (const FilterFn run = find_text_filter(name)) return run;
  if (const FilterFn run = find_list_filter(name)) return run;
  return find_select_filter(name);
}

bool known_filter(std::string_view name) {
  return find_filter(name) != nullptr;
}

}  // namespace gyre::text::jinja
