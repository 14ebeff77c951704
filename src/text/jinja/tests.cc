// The tests behind `is`.
#include <algorithm>

#include "text/jinja/interpreter.h"
#include "text/jinja/names.h"
#include "text/jinja/text_ops.h"

namespace gyre::text::jinja {
namespace {

using Check = bool (*)(const Value&);

template <Check check>
Result<bool> plain(Interpreter& in, const Value& input, const Args& args) {
  GYRE_TRY(bind(in, "test", args, {}));
  return check(input);
}

bool defined(const Value& v) {
  return !v.is(Kind::undefined);
}
bool undefined(const Value& v) {
  return v.is(Kind::undefined);
}
bool none(const Value& v) {
  return v.is(Kind::none);
}
bool boolean(const Value& v) {
  return v.is(Kind::boolean);
}
bool is_true(const Value& v) {
  return v.is(Kind::boolean) && v.as_bool();
}
bool is_false(const Value& v) {
  return v.is(Kind::boolean) && !v.as_bool();
}
bool integer(const Value& v) {
  return v.is(Kind::integer);
}
bool real(const Value& v) {
  return v.is(Kind::real);
}
bool number(const Value& v) {
  return v.is_number();
}
bool string(const Value& v) {
  return v.is(Kind::string);
}
bool mapping(const Value& v) {
  return v.is(Kind::dict);
}
bool iterable(const Value& v) {
  return v.is(Kind::undefined) || v.is(Kind::string) || v.is(Kind::list) || v.is(Kind::dict) ||
         (v.is(Kind::callable) && v.function().kind == CallKind::loop);
}
bool sequence(const Value& v) {
  if (v.is(Kind::list))
    return v.items().kind != ListKind::generator && v.items().kind != ListKind::view;
  return v.is(Kind::undefined) || v.is(Kind::string) || v.is(Kind::dict);
}
bool callable(const Value& v) {
  return v.is(Kind::callable) || v.is(Kind::undefined);  // Undefined has __call__
}
bool escaped(const Value& v) {
  return v.markup();
}

Result<bool> lower_test(Interpreter& in, const Value& input, const Args& args) {
  GYRE_TRY(bind(in, "lower", args, {}));
  GYRE_ASSIGN(const std::string text, in.str(input));
  return text != upper(text) && text == lower(text);
}

Result<bool> upper_test(Interpreter& in, const Value& input, const Args& args) {
  GYRE_TRY(bind(in, "upper", args, {}));
  GYRE_ASSIGN(const std::string text, in.str(input));
  return text != lower(text) && text == upper(text);
}

Result<bool> remainder_is(Interpreter& in, const Value& input, const Value& by, Int want) {
  GYRE_ASSIGN(const Value rest, binary_operator(in, "%", input, by));
  return equal(rest, Value::integer(want));
}

Result<bool> even(Interpreter& in, const Value& input, const Args& args) {
  GYRE_TRY(bind(in, "even", args, {}));
  return remainder_is(in, input, Value::integer(2), 0);
}

Result<bool> odd(Interpreter& in, const Value& input, const Args& args) {
  GYRE_TRY(bind(in, "odd", args, {}));
  return remainder_is(in, input, Value::integer(2), 1);
}

Result<bool> divisible(Interpreter& in, const Value& input, const Args& args) {
  GYRE_ASSIGN(const auto a, bind(in, "divisibleby", args, {"num"}, 1));
  return remainder_is(in, input, *a[0], 0);
}

Result<bool> same_as(Interpreter& in, const Value& input, const Args& args) {
  GYRE_ASSIGN(const auto a, bind(in, "sameas", args, {"other"}, 1));
  if (input.kind() != a[0]->kind()) return false;
  if (input.is_number() || input.is(Kind::none) || input.is(Kind::undefined))
    return equal(input, *a[0]);
  return input.object() == a[0]->object();
}

Result<bool> is_filter(Interpreter& in, const Value& input, const Args& args) {
  GYRE_TRY(bind(in, "filter", args, {}));
  return input.is(Kind::string) && known_filter(input.text());
}

Result<bool> is_test(Interpreter& in, const Value& input, const Args& args) {
  GYRE_TRY(bind(in, "test", args, {}));
  return input.is(Kind::string) && known_test(input.text());
}

Result<bool> in_test(Interpreter& in, const Value& input, const Args& args) {
  GYRE_ASSIGN(const auto a, bind(in, "in", args, {"seq"}, 1));
  return contains(in, *a[0], input);
}

enum class Op { eq, ne, lt, le, gt, ge };

template <Op op>
Result<bool> comparison(Interpreter& in, const Value& input, const Args& args) {
  constexpr const char* kOps[] = {"==", "!=", "<", "<=", ">", ">="};
  GYRE_ASSIGN(const auto a, bind(in, kOps[static_cast<int>(op)], args, {"other"}, 1));
  return compare_values(in, kOps[static_cast<int>(op)], input, *a[0]);
}

struct NamedTest {
  std::string_view name;
  TestFn run;
};
constexpr NamedTest kTests[] = {{"!=", comparison<Op::ne>},
                                {"<", comparison<Op::lt>},
                                {"<=", comparison<Op::le>},
                                {"==", comparison<Op::eq>},
                                {">", comparison<Op::gt>},
                                {">=", comparison<Op::ge>},
                                {"boolean", plain<boolean>},
                                {"callable", plain<callable>},
                                {"defined", plain<defined>},
                                {"divisibleby", divisible},
                                {"eq", comparison<Op::eq>},
                                {"equalto", comparison<Op::eq>},
                                {"escaped", plain<escaped>},
                                {"even", even},
                                {"false", plain<is_false>},
                                {"filter", is_filter},
                                {"float", plain<real>},
                                {"ge", comparison<Op::ge>},
                                {"greaterthan", comparison<Op::gt>},
                                {"gt", comparison<Op::gt>},
                                {"in", in_test},
                                {"integer", plain<integer>},
                                {"iterable", plain<iterable>},
                                {"le", comparison<Op::le>},
                                {"lessthan", comparison<Op::lt>},
                                {"lower", lower_test},
                                {"lt", comparison<Op::lt>},
                                {"mapping", plain<mapping>},
                                {"ne", comparison<Op::ne>},
                                {"none", plain<none>},
                                {"number", plain<number>},
                                {"odd", odd},
                                {"sameas", same_as},
                                {"sequence", plain<sequence>},
                                {"string", plain<string>},
                                {"test", is_test},
                                {"true", plain<is_true>},
                                {"undefined", plain<undefined>},
                                {"upper", upper_test}};

}  // namespace

TestFn find_test(std::string_view name) {
  for (const NamedTest& t : kTests)
    if (t.name == name) return t.run;
  return nullptr;
}

bool known_test(std::string_view name) {
  return find_test(name) != nullptr;
}

}  // namespace gyre::text::jinja
