#include <algorithm>

#include "text/jinja/interpreter.h"
#include "text/jinja/text_ops.h"

namespace gyre::text::jinja {
namespace {

// The index that a number names in a row of `size` items; false if it is outside.
bool index_of(const Value& key, size_t size, size_t* out) {
  if (!key.is_integral()) return false;
  Int at = key.as_int();
  if (at < 0) at += static_cast<Int>(size);
  if (at < 0 || at >= static_cast<Int>(size)) return false;
  *out = static_cast<size_t>(at);
  return true;
}

Value no_attribute(const Value& object, std::string_view name) {
  return Value::undefined("'" + std::string(type_name(object)) + " object' has no attribute '" +
                          std::string(name) + "'");
}

Value method(const Value& object, const std::string& name) {
  auto out = std::make_shared<CallableObject>(CallKind::method, name);
  out->receiver = object;
  return Value::callable(std::move(out));
}

Value loop_attribute(const Value& value, const std::string& name) {
  const CallableObject& loop = value.function();
  const std::vector<Value>& items = loop.receiver.items().items;
  const size_t at = loop.position, count = items.size();
  const auto number = [](size_t n) { return Value::integer(static_cast<Int>(n)); };
  if (name == "index") return number(at + 1);
  if (name == "index0") return number(at);
  if (name == "revindex") return number(count - at);
  if (name == "revindex0") return number(count - at - 1);
  if (name == "first") return Value::boolean(at == 0);
  if (name == "last") return Value::boolean(at + 1 == count);
  if (name == "length") return number(count);
  if (name == "depth") return number(loop.depth0 + 1);
  if (name == "depth0") return number(loop.depth0);
  if (name == "previtem")
    return at > 0 ? items[at - 1] : Value::undefined("there is no previous item");
  if (name == "nextitem")
    return at + 1 < count ? items[at + 1] : Value::undefined("there is no next item");
  if (name == "cycle" || name == "changed") return method(value, name);
  return no_attribute(value, name);
}

Value callable_attribute(const Value& value, const std::string& name) {
  const CallableObject& f = value.function();
  if (f.kind == CallKind::loop) return loop_attribute(value, name);
  if (f.kind == CallKind::cycler) {
    if (name == "next" || name == "reset") return method(value, name);
    if (name == "current") return f.receiver.items().items[f.position];
  }
  if (f.kind == CallKind::macro && name == "name") return Value::string(f.name);
  return no_attribute(value, name);
}

}  // namespace

Result<std::vector<Value>> Interpreter::iterate(const Value& value) {
  std::vector<Value> out;
  switch (value.kind()) {
    case Kind::undefined:
      return out;
    case Kind::string:
      GYRE_TRY(budget_.items(length(value.text())));
      for (std::string& c : code_points(value.text())) out.push_back(Value::string(std::move(c)));
      return out;
    case Kind::list:
      GYRE_TRY(budget_.items(value.items().items.size()));
      if (value.items().kind == ListKind::generator) {
        out.swap(value.items().items);
      } else {
        out = value.items().items;
      }
      return out;
    case Kind::dict:
      GYRE_TRY(budget_.items(value.entries().entries.size()));
      for (const auto& [key, item] : value.entries().entries) out.push_back(key);
      return out;
    default:
      return error("iteration", type_name(value), "a list, a dict or a string");
  }
}

Result<Value> Interpreter::attribute(const Value& object, const std::string& name) {
  switch (object.kind()) {
    case Kind::undefined:
      return is_undefined(object);
    case Kind::name_space:
      if (const Value* found = object.entries().find(name)) return *found;
      return no_attribute(object, name);
    case Kind::callable:
      return callable_attribute(object, name);
    default:
      break;
  }
  if (has_method(object, name)) return method(object, name);
  if (object.is(Kind::dict))
    if (const Value* found = object.entries().find(name)) return *found;
  return no_attribute(object, name);
}

Result<Value> Interpreter::item(const Value& object, const Value& key) {
  if (object.is(Kind::undefined)) return is_undefined(object);
  size_t at = 0;
  if (object.is(Kind::list) && object.items().kind != ListKind::generator &&
      object.items().kind != ListKind::view) {
    if (index_of(key, object.items().items.size(), &at)) return object.items().items[at];
  } else if (object.is(Kind::string)) {
    GYRE_TRY(budget_.scan(object.text().size()));
    if (index_of(key, length(object.text()), &at)) {
      const std::string& text = object.text();
      const size_t begin = byte_offset(text, at);
      const size_t bytes = byte_offset(std::string_view(text).substr(begin), 1);
      return Value::string(text.substr(begin, bytes), object.markup());
    }
  } else if (object.is(Kind::dict)) {
    if (const Value* found = object.entries().find(key)) return *found;
  }
  if (key.is(Kind::string)) {
    if (object.is(Kind::name_space) || object.is(Kind::callable))
      return attribute(object, key.text());
    if (has_method(object, key.text())) return method(object, key.text());
    return no_attribute(object, key.text());
  }
  return Value::undefined(std::string(type_name(object)) + " object has no such element");
}

Result<Value> Interpreter::call(const Value& callee, Args args) {
  if (callee.is(Kind::undefined)) return is_undefined(callee);
  if (!callee.is(Kind::callable)) return error("call", type_name(callee), "a function");
  CallableObject& f = callee.function();
  if (has_caller_ && f.kind != CallKind::macro) return error("call block", f.name, "a macro");
  switch (f.kind) {
    case CallKind::function:
      return call_function(*this, f.name, args);
    case CallKind::method:
      return call_method(*this, f.receiver, f.name, args);
    case CallKind::macro:
      return call_macro(f, std::move(args));
    case CallKind::joiner: {
      const bool first = f.position++ == 0;
      return first ? Value::string("") : f.receiver;
    }
    case CallKind::loop:
      break;
    case CallKind::cycler:
      return error("call", "a cycler", "its method next");
  }
  if (f.body == nullptr) return error("call of loop", "", "the loop to be marked recursive");
  if (args.positional.size() != 1 || !args.named.empty())
    return error("call of loop", "its arguments", "one list");
  const ScopePtr outer = std::exchange(scope_, f.scope);
  std::string out;
  std::string* const output = std::exchange(out_, &out);
  const Result<Flow> flow = for_loop(*f.body, args.positional[0], f.depth0 + 1);
  out_ = output;
  scope_ = outer;
  if (!flow.ok()) return Error(flow.error());
  return Value::string(std::move(out));
}

}  // namespace gyre::text::jinja
