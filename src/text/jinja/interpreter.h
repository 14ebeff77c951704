// One render: walks the tree, with scopes, a budget and one output.
//
// Lives for one call of ChatTemplate::render() on one thread. Errors: usage for what the template
// or its inputs do wrong (raise_exception included), with the line; unsupported for a limit.
#pragma once

#include <ctime>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "text/jinja/ast.h"
#include "text/jinja/budget.h"
#include "text/jinja/callable.h"

namespace gyre::text::jinja {

struct Scope {
  explicit Scope(std::shared_ptr<Scope> p) : parent(std::move(p)) {}
  std::shared_ptr<Scope> parent;
  std::unordered_map<std::string, Value> names;
};
using ScopePtr = std::shared_ptr<Scope>;

class Interpreter {
 public:
  Interpreter(const Limits& limits, std::optional<std::tm> now) : budget_(limits), now_(now) {}
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  Result<std::string> run(const Body& body, const DictObject& globals);

  // For filters, tests, functions and methods:
  Budget& budget() { return budget_; }
  const std::optional<std::tm>& now() const { return now_; }
  Error error(std::string_view what, std::string_view value = {},
              std::string_view expected = {}) const;
  Error is_undefined(const Value& value) const;
  Result<Value> call(const Value& callee, Args args);
  Result<Value> filter(const std::string& name, const Value& input, const Args& args);
  Result<bool> test(const std::string& name, const Value& input, const Args& args);
  // The items that Python's iter(value) gives; a generator is empty afterwards.
  Result<std::vector<Value>> iterate(const Value& value);
  Result<Value> attribute(const Value& object, const std::string& name);
  Result<Value> item(const Value& object, const Value& key);
  Result<std::string> str(const Value& value);
  Result<Value> text(std::string text, bool markup = false);  // charges and makes a string
  Result<Value> list(std::vector<Value> items, ListKind kind = ListKind::list);
  // Objects that may come to hold themselves are emptied at the end of the render.
  void remember(const std::shared_ptr<Object>& object) { loops_back_.push_back(object); }

 private:
  enum class Flow : uint8_t { normal, leave, next };

  // Statements (exec.cc)
  Result<Flow> exec(const Body& body);
  Result<Flow> exec_one(const Statement& s);
  Result<Flow> condition(const Statement& s);
  Result<Flow> for_loop(const Statement& s, const Value& over, size_t depth0);
  Result<std::vector<Value>> loop_items(const Statement& s, const Value& over);
  Status set(const Statement& s);
  Result<Flow> with(const Statement& s);
  Status call_block(const Statement& s);
  Status emit(const Value& value);
  // Runs the body into a text of its own.
  Result<Flow> captured(const Body& body, std::string* out);
  Status assign(const Expr& target, const Value& value);
  Value make_macro(const Statement& s);
  Result<Value> call_macro(const CallableObject& macro, Args args);
  Status bind_parameters(const CallableObject& macro, Args& args);
  Status bind_rest(const CallableObject& macro, Args& args);

  // Expressions (eval.cc)
  Result<Value> eval(const Expr& e);
  Result<Value> eval_kind(const Expr& e);
  Result<Value> name(const std::string& name) const;
  Result<Value> sequence(const Expr& e, ListKind kind);
  Result<Value> dict(const Expr& e);
  Result<Value> slice(const Expr& e, const Value& object);
  Result<Value> item_of(const Expr& e);
  Result<Value> call_of(const Expr& e);
  Result<Value> filter_of(const Expr& e);
  Result<Value> unary(const Expr& e);
  Result<Value> binary(const Expr& e);
  Result<Value> compare(const Expr& e);
  Result<Value> concat(const Expr& e);
  Result<Value> logic(const Expr& e);
  Result<Value> choose(const Expr& e);
  Result<Args> arguments(const Expr& e);
  Result<Value> filter_text(const Expr* e, std::string text);

  Budget budget_;
  std::optional<std::tm> now_;
  ScopePtr scope_;
  std::string* out_ = nullptr;
  int line_ = 0;
  const Value* block_text_ = nullptr;  // input of a filter chain on a block
  Value pending_caller_;               // of a call block, on its way to the macro
  bool has_caller_ = false;
  std::vector<ScopePtr> captured_scopes_;
  std::vector<std::shared_ptr<Object>> loops_back_;
};

// Python's operators (operators.cc). Errors say which types do not go together.
Result<Value> binary_operator(Interpreter& in, const std::string& op, const Value& a,
                              const Value& b);
Result<bool> same_values(Interpreter& in, const Value& a, const Value& b);  // ==
Result<bool> less(Interpreter& in, const Value& a, const Value& b);
Result<bool> contains(Interpreter& in, const Value& container, const Value& item);
Result<bool> compare_values(Interpreter& in, const std::string& op, const Value& a, const Value& b);
Result<Value> slice_value(Interpreter& in, const Value& object, const Value& start,
                          const Value& stop, const Value& step);

// Values for the parameters `names`, in order; null where none was given.
Result<std::vector<const Value*>> bind(const Interpreter& in, std::string_view what,
                                       const Args& args,
                                       std::initializer_list<std::string_view> names,
                                       size_t required = 0);
// An argument as an integer that fits int64; `fallback` where the argument is null.
Result<int64_t> int_argument(const Interpreter& in, const Value* value, int64_t fallback);

// Tables of names.
using FilterFn = Result<Value> (*)(Interpreter&, const Value&, const Args&);
using TestFn = Result<bool> (*)(Interpreter&, const Value&, const Args&);
struct NamedFilter {
  std::string_view name;
  FilterFn run;
};
FilterFn find_filter(std::string_view name);
FilterFn find_text_filter(std::string_view name);
FilterFn find_list_filter(std::string_view name);
FilterFn find_select_filter(std::string_view name);
TestFn find_test(std::string_view name);

// Globals (functions.cc), methods (methods*.cc).
void add_globals(DictObject& globals);
Result<Value> call_function(Interpreter& in, const std::string& name, const Args& args);
bool has_method(const Value& object, std::string_view name);
Result<Value> call_method(Interpreter& in, const Value& object, const std::string& name,
                          const Args& args);
Result<Value> call_text_method(Interpreter& in, const Value& object, const std::string& name,
                               const Args& args);
// Python's "..." % values and "...".format(...) (format.cc).
Result<Value> percent_format(Interpreter& in, const std::string& format, const Value& values);
Result<Value> brace_format(Interpreter& in, const std::string& format, const Args& args);

}  // namespace gyre::text::jinja
