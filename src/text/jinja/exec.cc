#include <algorithm>

#include "text/jinja/interpreter.h"
#include "text/jinja/print.h"

namespace gyre::text::jinja {
namespace {

// Puts a value back at the end of a C++ scope, whatever happens between.
template <class T>
class Restore {
 public:
  Restore(T& place, T value) : place_(place), old_(std::exchange(place, std::move(value))) {}
  ~Restore() { place_ = std::move(old_); }
  Restore(const Restore&) = delete;
  Restore& operator=(const Restore&) = delete;

 private:
  T& place_;
  T old_;
};

}  // namespace

Interpreter::~Interpreter() {
  // A macro holds its scope and the scope holds the macro; a namespace may hold itself.
  for (const ScopePtr& scope : captured_scopes_) {
    std::unordered_map<std::string, Value> names;
    names.swap(scope->names);
    for (auto& [name, value] : names) bury(std::move(value));
  }
  for (const auto& object : loops_back_) {
    if (auto* dict = dynamic_cast<DictObject*>(object.get())) dict->clear();
    if (auto* list = dynamic_cast<ListObject*>(object.get())) {
      std::vector<Value> items;
      items.swap(list->items);
      for (Value& item : items) bury(std::move(item));
    }
  }
}

Result<std::string> Interpreter::run(const Body& body, const DictObject& globals) {
  auto outer = std::make_shared<Scope>(nullptr);
  for (const auto& [key, value] : globals.entries) outer->names[key.text()] = value;
  scope_ = std::make_shared<Scope>(outer);
  std::string out;
  out_ = &out;
  const Result<Flow> flow = exec(body);
  out_ = nullptr;
  if (!flow.ok()) return Error(flow.error());
  return out;
}

Result<Interpreter::Flow> Interpreter::exec(const Body& body) {
  const Level level(budget_);
  if (!level.status().ok()) return Error(level.status().error());
  for (const auto& s : body) {
    GYRE_TRY(budget_.step());
    line_ = s->line;
    GYRE_ASSIGN(const Flow flow, exec_one(*s));
    if (flow != Flow::normal) return flow;
  }
  return Flow::normal;
}

Status Interpreter::emit(const Value& value) {
  return append_str(budget_, value, *out_);
}

Result<Interpreter::Flow> Interpreter::exec_one(const Statement& s) {
  switch (s.kind) {
    case StatementKind::text:
      GYRE_TRY(budget_.grow(s.text.size(), out_->size() + s.text.size()));
      *out_ += s.text;
      return Flow::normal;
    case StatementKind::output: {
      GYRE_ASSIGN(const Value value, eval(*s.expr));
      GYRE_TRY(emit(value));
      return Flow::normal;
    }
    case StatementKind::condition:
      return condition(s);
    case StatementKind::loop: {
      GYRE_ASSIGN(const Value over, eval(*s.expr));
      return for_loop(s, over, 0);
    }
    case StatementKind::set:
      GYRE_TRY(set(s));
      return Flow::normal;
    case StatementKind::set_block:
    case StatementKind::filter: {
      std::string inner;
      GYRE_ASSIGN(const Flow flow, captured(s.body, &inner));
      if (flow != Flow::normal) return flow;
      GYRE_ASSIGN(const Value value, filter_text(s.expr.get(), std::move(inner)));
      GYRE_TRY(s.kind == StatementKind::filter ? emit(value) : assign(*s.target, value));
      return Flow::normal;
    }
    case StatementKind::macro:
      scope_->names[s.text] = make_macro(s);
      return Flow::normal;
    case StatementKind::call_block:
      GYRE_TRY(call_block(s));
      return Flow::normal;
    case StatementKind::with:
      return with(s);
    case StatementKind::scope: {
      const Restore<ScopePtr> scope(scope_, std::make_shared<Scope>(scope_));
      return exec(s.body);
    }
    case StatementKind::leave:
      return Flow::leave;
    case StatementKind::next:
      return Flow::next;
  }
  return Flow::normal;
}

Result<Interpreter::Flow> Interpreter::condition(const Statement& s) {
  for (const auto& [test, body] : s.branches) {
    if (test) {
      GYRE_ASSIGN(const Value value, eval(*test));
      if (!value.truth()) continue;
    }
    return exec(body);
  }
  return Flow::normal;
}

Result<std::vector<Value>> Interpreter::loop_items(const Statement& s, const Value& over) {
  GYRE_ASSIGN(std::vector<Value> items, iterate(over));
  if (!s.test) return items;
  std::vector<Value> kept;
  for (Value& item : items) {
    const Restore<ScopePtr> scope(scope_, std::make_shared<Scope>(scope_));
    GYRE_TRY(assign(*s.target, item));
    GYRE_ASSIGN(const Value keep, eval(*s.test));
    if (keep.truth()) kept.push_back(std::move(item));
  }
  return kept;
}

Result<Interpreter::Flow> Interpreter::for_loop(const Statement& s, const Value& over,
                                                size_t depth0) {
  GYRE_ASSIGN(std::vector<Value> items, loop_items(s, over));
  if (items.empty()) {
    const Restore<ScopePtr> scope(scope_, std::make_shared<Scope>(scope_));
    return exec(s.otherwise);
  }
  auto loop = std::make_shared<CallableObject>(CallKind::loop, "loop");
  loop->depth0 = depth0;
  const size_t count = items.size();
  loop->receiver = Value::list(std::move(items));
  if (s.recursive) {
    loop->body = &s;
    loop->scope = scope_;
  }
  const Value loop_value = Value::callable(loop);
  for (size_t i = 0; i < count; ++i) {
    GYRE_TRY(budget_.step());
    loop->position = i;
    const Restore<ScopePtr> scope(scope_, std::make_shared<Scope>(scope_));
    GYRE_TRY(assign(*s.target, loop->receiver.items().items[i]));
    scope_->names["loop"] = loop_value;
    GYRE_ASSIGN(const Flow flow, exec(s.body));
    if (flow == Flow::leave) break;
  }
  return Flow::normal;
}

Result<Interpreter::Flow> Interpreter::captured(const Body& body, std::string* out) {
  const Restore<ScopePtr> scope(scope_, std::make_shared<Scope>(scope_));
  const Restore<std::string*> output(out_, out);
  return exec(body);
}

Status Interpreter::set(const Statement& s) {
  GYRE_ASSIGN(const Value value, eval(*s.expr));
  line_ = s.line;
  return assign(*s.target, value);
}

Status Interpreter::assign(const Expr& target, const Value& value) {
  if (target.kind == ExprKind::name) {
    scope_->names[target.text] = value;
    return {};
  }
  if (target.kind == ExprKind::member) {
    GYRE_ASSIGN(const Value object, name(target.text));
    if (object.is(Kind::undefined)) return is_undefined(object);
    if (!object.is(Kind::name_space))
      return error("set " + target.text + "." + target.ops[0], type_name(object), "a namespace");
    GYRE_TRY(budget_.items(1));
    object.entries().set(target.ops[0], value);
    return {};
  }
  GYRE_ASSIGN(const std::vector<Value> items, iterate(value));
  if (items.size() != target.children.size())
    return error("unpacking", std::to_string(items.size()) + " values",
                 std::to_string(target.children.size()));
  for (size_t i = 0; i < items.size(); ++i) GYRE_TRY(assign(*target.children[i], items[i]));
  return {};
}

Result<Interpreter::Flow> Interpreter::with(const Statement& s) {
  std::vector<Value> values;  // all of them before the names exist
  for (const auto& [target, expr] : s.bindings) {
    GYRE_ASSIGN(Value value, eval(*expr));
    values.push_back(std::move(value));
  }
  const Restore<ScopePtr> scope(scope_, std::make_shared<Scope>(scope_));
  for (size_t i = 0; i < values.size(); ++i) GYRE_TRY(assign(*s.bindings[i].first, values[i]));
  return exec(s.body);
}

Value Interpreter::make_macro(const Statement& s) {
  auto macro = std::make_shared<CallableObject>(CallKind::macro, s.text);
  macro->body = &s;
  macro->scope = scope_;
  captured_scopes_.push_back(scope_);
  return Value::callable(std::move(macro));
}

Status Interpreter::call_block(const Statement& s) {
  const Expr& e = *s.expr;
  GYRE_ASSIGN(const Value callee, eval(*e.children[0]));
  GYRE_ASSIGN(Args args, arguments(e));
  line_ = s.line;
  pending_caller_ = make_macro(s);
  has_caller_ = true;
  Result<Value> value = call(callee, std::move(args));
  has_caller_ = false;
  if (!value.ok()) return std::move(value).error();
  return emit(*value);
}

Status Interpreter::bind_parameters(const CallableObject& macro, Args& args) {
  const Statement& s = *macro.body;
  const size_t given = std::min(args.positional.size(), s.parameters.size());
  for (size_t i = 0; i < s.parameters.size(); ++i) {
    const std::string& name = s.parameters[i].first;
    const ExprPtr& fallback = s.parameters[i].second;
    Value value = Value::undefined("parameter '" + name + "' was not provided");
    if (i < given) {
      value = args.positional[i];
    } else if (const auto it = std::find_if(args.named.begin(), args.named.end(),
                                            [&](const auto& a) { return a.first == name; });
               it != args.named.end()) {
      value = std::move(it->second);
      args.named.erase(it);
    } else if (fallback) {
      GYRE_ASSIGN(value, eval(*fallback));
    }
    scope_->names[name] = std::move(value);
  }
  args.positional.erase(args.positional.begin(),
                        args.positional.begin() + static_cast<std::ptrdiff_t>(given));
  return {};
}

Status Interpreter::bind_rest(const CallableObject& macro, Args& args) {
  const Statement& s = *macro.body;
  if (const auto it = std::find_if(args.named.begin(), args.named.end(),
                                   [](const auto& a) { return a.first == "caller"; });
      it != args.named.end()) {
    scope_->names["caller"] = std::move(it->second);
    args.named.erase(it);
  }
  if (s.uses_kwargs) {
    auto rest = std::make_shared<DictObject>();
    for (auto& [name, value] : args.named) rest->set(name, std::move(value));
    scope_->names["kwargs"] = Value::dict(std::move(rest));
  } else if (!args.named.empty()) {
    return error("macro " + macro.name, args.named[0].first, "no argument of this name");
  }
  if (s.uses_varargs) {
    scope_->names["varargs"] = Value::list(std::move(args.positional), ListKind::tuple);
  } else if (!args.positional.empty()) {
    return error("macro " + macro.name, "too many arguments",
                 "at most " + std::to_string(s.parameters.size()));
  }
  return {};
}

Result<Value> Interpreter::call_macro(const CallableObject& macro, Args args) {
  const Level level(budget_);
  if (!level.status().ok()) return Error(level.status().error());
  const Restore<ScopePtr> scope(scope_, std::make_shared<Scope>(macro.scope));
  scope_->names["caller"] =
      has_caller_ ? std::exchange(pending_caller_, Value()) : Value::undefined("No caller defined");
  has_caller_ = false;
  GYRE_TRY(bind_parameters(macro, args));
  GYRE_TRY(bind_rest(macro, args));
  std::string out;
  const Restore<std::string*> output(out_, &out);
  GYRE_ASSIGN(const Flow flow, exec(macro.body->body));
  (void)flow;  // the parser allows no break across a macro
  return Value::string(std::move(out));
}

}  // namespace gyre::text::jinja
