// Values of a template: what Python objects a chat template can meet, as shared, counted objects.
//
// A Value is small and cheap to copy; text, lists and dicts are shared. One render owns its values;
// they never cross threads. Destruction of deep nestings does not recurse.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace gyre::text::jinja {

// Wide enough for every 64-bit number of a JSON document, signed or not.
using Int = __int128;

enum class Kind : uint8_t {
  undefined,
  none,
  boolean,
  integer,
  real,
  string,
  list,
  dict,
  name_space,
  callable
};

// What Python calls the thing that holds items in a row.
enum class ListKind : uint8_t { list, tuple, generator, view, range };

struct Object {
  virtual ~Object() = default;
};
struct ListObject;
struct DictObject;
struct CallableObject;

class Value {
 public:
  Value() = default;                              // undefined, without a name
  static Value undefined(std::string_view hint);  // hint: why it is undefined, for the error's text
  static Value none();
  static Value boolean(bool value);
  static Value integer(Int value);
  static Value real(double value);
  static Value string(std::string text, bool markup = false);
  static Value list(std::vector<Value> items, ListKind kind = ListKind::list);
  static Value dict(std::shared_ptr<DictObject> dict = nullptr);
  static Value name_space(std::shared_ptr<DictObject> attributes);
  static Value callable(std::shared_ptr<CallableObject> callable);

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_number() const {
    return kind_ == Kind::boolean || kind_ == Kind::integer || kind_ == Kind::real;
  }
  bool is_integral() const { return kind_ == Kind::boolean || kind_ == Kind::integer; }
  bool is_list(ListKind kind) const;

  bool as_bool() const { return number_.integer != 0; }
  Int as_int() const { return number_.integer; }  // boolean or integer
  double as_double() const;                       // any number
  const std::string& text() const;                // string; the hint of an undefined
  bool markup() const;                            // string that escaping leaves alone
  ListObject& items() const;                      // list
  DictObject& entries() const;                    // dict, name_space
  CallableObject& function() const;
  const std::shared_ptr<Object>& object() const { return object_; }

  bool truth() const;  // Python's bool(value)

 private:
  friend void bury(Value&& value);
  Kind kind_ = Kind::undefined;
  union {
    Int integer;
    double real;
  } number_{0};
  std::shared_ptr<Object> object_;
};

// Destroys a value later, outside the running destructor, if this is its last owner.
void bury(Value&& value);

struct StringObject : Object {
  StringObject(std::string t, bool m) : text(std::move(t)), markup(m) {}
  std::string text;
  bool markup;
};

struct ListObject : Object {
  ListObject(std::vector<Value> i, ListKind k) : items(std::move(i)), kind(k) {}
  ~ListObject() override;
  std::vector<Value> items;
  ListKind kind;
  std::string_view view_of;  // keys, values or items: a view of a dict
};

// Keeps the order of insertion; finds by hash when there are more than a few entries.
struct DictObject : Object {
  ~DictObject() override;
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  void set(const Value& key, Value value);  // the key must be hashable()
  void set(std::string_view key, Value value) {
    set(Value::string(std::string(key)), std::move(value));
  }
  void clear();
  std::vector<std::pair<Value, Value>> entries;

 private:
  size_t locate(const Value& key) const;
  std::unordered_multimap<uint64_t, size_t> index_;
};

bool hashable(const Value& value);

// Python's names of types, as its error messages give them.
std::string_view type_name(const Value& value);

// Python's ==; lists and dicts deeper than `depth` are unequal. `work`, if given, goes down by one
// for each pair of values and 64 bytes of text; at 0 the rest is unequal.
inline constexpr uint64_t kMaxEqualWork = uint64_t{1} << 24;
bool equal(const Value& a, const Value& b, int depth = 200, uint64_t* work = nullptr);

}  // namespace gyre::text::jinja
