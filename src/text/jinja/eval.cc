#include <cmath>

#include "text/jinja/interpreter.h"
#include "text/jinja/print.h"

namespace gyre::text::jinja {

Error Interpreter::error(std::string_view what, std::string_view value,
                         std::string_view expected) const {
  return fail(ErrorCode::usage,
              "chat template, line " + std::to_string(line_) + ": " + std::string(what), value,
              expected);
}

Error Interpreter::is_undefined(const Value& value) const {
  return error(value.text().empty() ? "a value is undefined" : value.text());
}

Result<std::string> Interpreter::str(const Value& value) {
  std::string out;
  GYRE_TRY(append_str(budget_, value, out));
  return out;
}

Result<Value> Interpreter::text(std::string text, bool markup) {
  GYRE_TRY(budget_.text(text.size()));
  return Value::string(std::move(text), markup);
}

Result<Value> Interpreter::list(std::vector<Value> items, ListKind kind) {
  GYRE_TRY(budget_.items(items.size()));
  return Value::list(std::move(items), kind);
}

Result<Value> Interpreter::name(const std::string& name) const {
  for (const Scope* scope = scope_.get(); scope != nullptr; scope = scope->parent.get())
    if (const auto it = scope->names.find(name); it != scope->names.end()) return it->second;
  return Value::undefined("'" + name + "' is undefined");
}

Result<Value> Interpreter::eval(const Expr& e) {
  const Level level(budget_);
  if (!level.status().ok()) return Error(level.status().error());
  GYRE_TRY(budget_.step());
  line_ = e.line;
  return eval_kind(e);
}

Result<Value> Interpreter::eval_kind(const Expr& e) {
  switch (e.kind) {
    case ExprKind::literal:
      return e.value;
    case ExprKind::name:
      return name(e.text);
    case ExprKind::list:
      return sequence(e, ListKind::list);
    case ExprKind::tuple:
      return sequence(e, ListKind::tuple);
    case ExprKind::dict:
      return dict(e);
    case ExprKind::attribute: {
      GYRE_ASSIGN(const Value object, eval(*e.children[0]));
      line_ = e.line;
      return attribute(object, e.text);
    }
    case ExprKind::item:
      return item_of(e);
    case ExprKind::call:
      return call_of(e);
    case ExprKind::filter:
    case ExprKind::test:
      return filter_of(e);
    case ExprKind::unary:
      return unary(e);
    case ExprKind::binary:
      return binary(e);
    case ExprKind::compare:
      return compare(e);
    case ExprKind::concat:
      return concat(e);
    case ExprKind::both:
    case ExprKind::either:
      return logic(e);
    case ExprKind::choose:
      return choose(e);
    case ExprKind::slice:
    case ExprKind::member:
      break;  // parts of item and of targets
  }
  return error("an expression out of place");
}

Result<Value> Interpreter::sequence(const Expr& e, ListKind kind) {
  std::vector<Value> items;
  items.reserve(e.children.size());
  for (const ExprPtr& child : e.children) {
    GYRE_ASSIGN(Value value, eval(*child));
    items.push_back(std::move(value));
  }
  return list(std::move(items), kind);
}

Result<Value> Interpreter::dict(const Expr& e) {
  auto out = std::make_shared<DictObject>();
  for (size_t i = 0; i + 1 < e.children.size(); i += 2) {
    GYRE_ASSIGN(const Value key, eval(*e.children[i]));
    GYRE_ASSIGN(Value value, eval(*e.children[i + 1]));
    if (!hashable(key)) return error("key of a dict", type_name(key), "a hashable value");
    out->set(key, std::move(value));
  }
  GYRE_TRY(budget_.items(out->entries.size()));
  return Value::dict(std::move(out));
}

Result<Value> Interpreter::item_of(const Expr& e) {
  GYRE_ASSIGN(const Value object, eval(*e.children[0]));
  const Expr& key = *e.children[1];
  if (key.kind == ExprKind::slice) return slice(key, object);
  for (const ExprPtr& part : key.children)
    if (part && part->kind == ExprKind::slice && key.kind == ExprKind::tuple)
      return error("subscript", "several slices", "one");
  GYRE_ASSIGN(const Value index, eval(key));
  line_ = e.line;
  return item(object, index);
}

Result<Value> Interpreter::slice(const Expr& e, const Value& object) {
  Value bounds[3] = {Value::none(), Value::none(), Value::none()};
  for (size_t i = 0; i < 3; ++i) {
    if (!e.children[i]) continue;
    GYRE_ASSIGN(bounds[i], eval(*e.children[i]));
  }
  line_ = e.line;
  return slice_value(*this, object, bounds[0], bounds[1], bounds[2]);
}

Result<Args> Interpreter::arguments(const Expr& e) {
  Args args;
  for (const ExprPtr& child : e.positional) {
    GYRE_ASSIGN(Value value, eval(*child));
    args.positional.push_back(std::move(value));
  }
  if (e.rest) {
    GYRE_ASSIGN(const Value rest, eval(*e.rest));
    GYRE_ASSIGN(const std::vector<Value> items, iterate(rest));
    args.positional.insert(args.positional.end(), items.begin(), items.end());
  }
  for (const auto& [name, child] : e.named) {
    GYRE_ASSIGN(Value value, eval(*child));
    args.named.emplace_back(name, std::move(value));
  }
  if (!e.named_rest) return args;
  GYRE_ASSIGN(const Value rest, eval(*e.named_rest));
  if (!rest.is(Kind::dict)) return error("**", type_name(rest), "a dict");
  GYRE_TRY(budget_.items(rest.entries().entries.size()));
  for (const auto& [key, value] : rest.entries().entries) {
    if (!key.is(Kind::string)) return error("**", "a key that is no string", "names");
    args.named.emplace_back(key.text(), value);
  }
  return args;
}

Result<Value> Interpreter::call_of(const Expr& e) {
  GYRE_ASSIGN(const Value callee, eval(*e.children[0]));
  GYRE_ASSIGN(Args args, arguments(e));
  line_ = e.line;
  return call(callee, std::move(args));
}

Result<Value> Interpreter::filter_of(const Expr& e) {
  Value input;
  if (e.children[0]) {
    GYRE_ASSIGN(input, eval(*e.children[0]));
  } else if (block_text_ != nullptr) {
    input = *block_text_;
  }
  GYRE_ASSIGN(const Args args, arguments(e));
  line_ = e.line;
  if (e.kind == ExprKind::filter) return filter(e.text, input, args);
  GYRE_ASSIGN(const bool yes, test(e.text, input, args));
  return Value::boolean(yes);
}

Result<Value> Interpreter::filter_text(const Expr* e, std::string text) {
  GYRE_ASSIGN(const Value input, this->text(std::move(text)));
  if (e == nullptr) return input;
  const Value* outer = std::exchange(block_text_, &input);
  Result<Value> out = eval(*e);
  block_text_ = outer;
  return out;
}

Result<Value> Interpreter::filter(const std::string& name, const Value& input, const Args& args) {
  const FilterFn run = find_filter(name);
  if (run == nullptr) return error("filter " + name, "unknown");
  return run(*this, input, args);
}

Result<bool> Interpreter::test(const std::string& name, const Value& input, const Args& args) {
  const TestFn run = find_test(name);
  if (run == nullptr) return error("test " + name, "unknown");
  return run(*this, input, args);
}

Result<Value> Interpreter::unary(const Expr& e) {
  GYRE_ASSIGN(const Value value, eval(*e.children[0]));
  line_ = e.line;
  if (e.text == "not") return Value::boolean(!value.truth());
  if (value.is(Kind::undefined)) return is_undefined(value);
  if (!value.is_number()) return error("unary " + e.text, type_name(value), "a number");
  const bool minus = e.text == "-";
  if (value.is(Kind::real)) return Value::real(minus ? -value.as_double() : value.as_double());
  Int negative = 0;
  if (__builtin_sub_overflow(Int{0}, value.as_int(), &negative))
    return error("integer", "too large");
  return Value::integer(minus ? negative : value.as_int());
}

Result<Value> Interpreter::binary(const Expr& e) {
  GYRE_ASSIGN(const Value a, eval(*e.children[0]));
  GYRE_ASSIGN(const Value b, eval(*e.children[1]));
  line_ = e.line;
  return binary_operator(*this, e.text, a, b);
}

Result<Value> Interpreter::compare(const Expr& e) {
  GYRE_ASSIGN(Value left, eval(*e.children[0]));
  for (size_t i = 0; i < e.ops.size(); ++i) {
    GYRE_ASSIGN(Value right, eval(*e.children[i + 1]));
    line_ = e.line;
    GYRE_ASSIGN(const bool yes, compare_values(*this, e.ops[i], left, right));
    if (!yes) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Result<Value> Interpreter::concat(const Expr& e) {
  std::string out;
  for (const ExprPtr& child : e.children) {
    GYRE_ASSIGN(const Value value, eval(*child));
    GYRE_TRY(append_str(budget_, value, out));
  }
  return Value::string(std::move(out));
}

Result<Value> Interpreter::logic(const Expr& e) {
  GYRE_ASSIGN(Value left, eval(*e.children[0]));
  if (left.truth() == (e.kind == ExprKind::either)) return left;
  return eval(*e.children[1]);
}

Result<Value> Interpreter::choose(const Expr& e) {
  GYRE_ASSIGN(const Value condition, eval(*e.children[1]));
  if (condition.truth()) return eval(*e.children[0]);
  if (e.children[2]) return eval(*e.children[2]);
  return Value::undefined(
      "the inline if-expression evaluated to false and no else section was "
      "defined");
}

}  // namespace gyre::text::jinja
