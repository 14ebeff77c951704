#include "text/jinja/value.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "text/jinja/callable.h"

namespace gyre::text::jinja {
namespace {

constexpr size_t kMissing = static_cast<size_t>(-1);
constexpr size_t kLinear = 8;  // entries that a search looks at one by one

const std::string& empty_text() {
  static const std::string empty;
  return empty;
}

uint64_t hash_of(const Value& key) {
  switch (key.kind()) {
    case Kind::string:
      return std::hash<std::string_view>()(key.text());
    case Kind::boolean:
    case Kind::integer:
    case Kind::real:
      return std::hash<double>()(key.as_double());  // 1, 1.0 and True are one key
    case Kind::list: {
      uint64_t hash = 7;
      for (const Value& item : key.items().items) hash = hash * 31 + hash_of(item);
      return hash;
    }
    default:
      return static_cast<uint64_t>(key.kind());
  }
}

}  // namespace

Value Value::undefined(std::string_view hint) {
  Value v;
  v.object_ = std::make_shared<StringObject>(std::string(hint), false);
  return v;
}

Value Value::none() {
  Value v;
  v.kind_ = Kind::none;
  return v;
}

Value Value::boolean(bool value) {
  Value v;
  v.kind_ = Kind::boolean;
  v.number_.integer = value ? 1 : 0;
  return v;
}

Value Value::integer(Int value) {
  Value v;
  v.kind_ = Kind::integer;
  v.number_.integer = value;
  return v;
}

Value Value::real(double value) {
  Value v;
  v.kind_ = Kind::real;
  v.number_.real = value;
  return v;
}

Value Value::string(std::string text, bool markup) {
  Value v;
  v.kind_ = Kind::string;
  v.object_ = std::make_shared<StringObject>(std::move(text), markup);
  return v;
}

Value Value::list(std::vector<Value> items, ListKind kind) {
  Value v;
  v.kind_ = Kind::list;
  v.object_ = std::make_shared<ListObject>(std::move(items), kind);
  return v;
}

Value Value::dict(std::shared_ptr<DictObject> dict) {
  Value v;
  v.kind_ = Kind::dict;
  v.object_ = dict ? std::move(dict) : std::make_shared<DictObject>();
  return v;
}

Value Value::name_space(std::shared_ptr<DictObject> attributes) {
  Value v;
  v.kind_ = Kind::name_space;
  v.object_ = std::move(attributes);
  return v;
}

Value Value::callable(std::shared_ptr<CallableObject> callable) {
  Value v;
  v.kind_ = Kind::callable;
  v.object_ = std::move(callable);
  return v;
}

bool Value::is_list(ListKind kind) const {
  return kind_ == Kind::list && items().kind == kind;
}

double Value::as_double() const {
  return kind_ == Kind::real ? number_.real : static_cast<double>(number_.integer);
}

const std::string& Value::text() const {
  return object_ ? static_cast<const StringObject&>(*object_).text : empty_text();
}

bool Value::markup() const {
  return kind_ == Kind::string && static_cast<const StringObject&>(*object_).markup;
}

ListObject& Value::items() const {
  return static_cast<ListObject&>(*object_);
}

DictObject& Value::entries() const {
  return static_cast<DictObject&>(*object_);
}

CallableObject& Value::function() const {
  return static_cast<CallableObject&>(*object_);
}

bool Value::truth() const {
  switch (kind_) {
    case Kind::undefined:
    case Kind::none:
      return false;
    case Kind::boolean:
    case Kind::integer:
      return number_.integer != 0;
    case Kind::real:
      return number_.real != 0;
    case Kind::string:
      return !text().empty();
    case Kind::list:
      return items().kind == ListKind::generator || !items().items.empty();
    case Kind::dict:
      return !entries().entries.empty();
    case Kind::name_space:
    case Kind::callable:
      return true;
  }
  return false;
}

void bury(Value&& value) {
  static thread_local std::vector<std::shared_ptr<Object>> grave;
  static thread_local bool digging = false;
  if (!value.object_ || value.kind_ == Kind::string || value.kind_ == Kind::undefined ||
      value.object_.use_count() != 1)
    return;
  grave.push_back(std::move(value.object_));
  value.kind_ = Kind::undefined;
  if (digging) return;
  digging = true;
  while (!grave.empty()) {
    const std::shared_ptr<Object> next = std::move(grave.back());
    grave.pop_back();
  }
  digging = false;
}

ListObject::~ListObject() {
  for (Value& item : items) bury(std::move(item));
}

DictObject::~DictObject() {
  clear();
}

void DictObject::clear() {
  std::vector<std::pair<Value, Value>> old;
  old.swap(entries);
  index_.clear();
  for (auto& [key, value] : old) bury(std::move(key)), bury(std::move(value));
}

size_t DictObject::locate(const Value& key) const {
  if (entries.size() <= kLinear) {
    for (size_t i = 0; i < entries.size(); ++i)
      if (equal(entries[i].first, key)) return i;
    return kMissing;
  }
  const auto [begin, end] = index_.equal_range(hash_of(key));
  for (auto it = begin; it != end; ++it)
    if (equal(entries[it->second].first, key)) return it->second;
  return kMissing;
}

const Value* DictObject::find(const Value& key) const {
  if (!hashable(key)) return nullptr;
  const size_t at = locate(key);
  return at == kMissing ? nullptr : &entries[at].second;
}

const Value* DictObject::find(std::string_view key) const {
  if (entries.size() > kLinear) return find(Value::string(std::string(key)));
  for (const auto& [name, value] : entries)
    if (name.is(Kind::string) && name.text() == key) return &value;
  return nullptr;
}

void DictObject::set(const Value& key, Value value) {
  if (const size_t at = locate(key); at != kMissing) {
    entries[at].second = std::move(value);
    return;
  }
  entries.emplace_back(key, std::move(value));
  if (entries.size() <= kLinear) return;
  for (size_t i = index_.size(); i < entries.size(); ++i)
    index_.emplace(hash_of(entries[i].first), i);
}

bool hashable(const Value& value) {
  if (value.is(Kind::dict) || value.is(Kind::name_space)) return false;
  if (!value.is(Kind::list)) return true;
  if (value.items().kind != ListKind::tuple) return false;
  for (const Value& item : value.items().items)
    if (item.is(Kind::list) || !hashable(item)) return false;  // flat tuples only
  return true;
}

std::string_view type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::undefined:
      return "Undefined";
    case Kind::none:
      return "NoneType";
    case Kind::boolean:
      return "bool";
    case Kind::integer:
      return "int";
    case Kind::real:
      return "float";
    case Kind::string:
      return "str";
    case Kind::list: {
      constexpr std::string_view kNames[] = {"list", "tuple", "generator", "view", "range"};
      return kNames[static_cast<size_t>(value.items().kind)];
    }
    case Kind::dict:
      return "dict";
    case Kind::name_space:
      return "Namespace";
    case Kind::callable:
      return "function";
  }
  return "object";
}

namespace {

bool spend(uint64_t* work, uint64_t amount) {
  if (work == nullptr) return true;
  *work -= std::min(*work, amount);
  return *work > 0;
}

bool equal_dicts(const DictObject& a, const DictObject& b, int depth, uint64_t* work) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    const Value* other = b.find(key);
    if (other == nullptr || !equal(value, *other, depth, work)) return false;
  }
  return true;
}

}  // namespace

bool equal(const Value& a, const Value& b, int depth, uint64_t* work) {
  if (!spend(work, 1)) return false;
  if (a.is_number() && b.is_number()) {
    if (a.is_integral() && b.is_integral()) return a.as_int() == b.as_int();
    return a.as_double() == b.as_double();
  }
  if (a.kind() != b.kind() || depth <= 0) return false;
  switch (a.kind()) {
    case Kind::string:
      return a.text().size() == b.text().size() && spend(work, a.text().size() / 64) &&
             a.text() == b.text();
    case Kind::list: {
      const ListObject &x = a.items(), &y = b.items();
      if (&x == &y) return true;
      if (x.kind != y.kind || x.kind == ListKind::generator || x.items.size() != y.items.size())
        return false;
      for (size_t i = 0; i < x.items.size(); ++i)
        if (!equal(x.items[i], y.items[i], depth - 1, work)) return false;
      return true;
    }
    case Kind::dict:
      return equal_dicts(a.entries(), b.entries(), depth - 1, work);
    case Kind::name_space:
    case Kind::callable:
      return a.object() == b.object();
    default:
      return true;  // undefined with undefined, None with None
  }
}

}  // namespace gyre::text::jinja
