#include "text/jinja/parser_state.h"

namespace gyre::text::jinja {
namespace {

bool one_of(const Token& token, std::initializer_list<std::string_view> ops) {
  if (token.kind != TokenKind::op) return false;
  for (const std::string_view op : ops)
    if (token.text == op) return true;
  return false;
}

std::string describe(const Token& t) {
  switch (t.kind) {
    case TokenKind::data:
      return "text";
    case TokenKind::output_begin:
      return "{{";
    case TokenKind::output_end:
      return "}}";
    case TokenKind::block_begin:
      return "{%";
    case TokenKind::block_end:
      return "%}";
    case TokenKind::string:
      return "a string";
    case TokenKind::end:
      return "the end";
    default:
      return t.text.size() > 60 ? "a long name" : t.text;
  }
}

}  // namespace

Status Nest::check() const {
  if (level_ > kMaxNesting)
    return fail(ErrorCode::unsupported, "chat template nesting", std::to_string(level_),
                "at most " + std::to_string(kMaxNesting));
  return {};
}

Error Parser::unexpected(std::string_view expected) const {
  return fail(ErrorCode::bad_file, "chat template, line " + std::to_string(now().line),
              describe(now()), expected);
}

bool Parser::skip_op(std::string_view op) {
  if (!at_op(op)) return false;
  ++at_;
  return true;
}

bool Parser::skip_name(std::string_view name) {
  if (!at_name(name)) return false;
  ++at_;
  return true;
}

Status Parser::expect_op(std::string_view op) {
  if (!skip_op(op)) return unexpected(op);
  return {};
}

Status Parser::expect_name(std::string_view name) {
  if (!skip_name(name)) return unexpected(name);
  return {};
}

Result<std::string> Parser::identifier() {
  if (now().kind != TokenKind::name) return unexpected("a name");
  return tokens_[at_++].text;
}

ExprPtr Parser::make(ExprKind kind, int line) const {
  auto e = std::make_unique<Expr>();
  e->kind = kind;
  e->line = line;
  return e;
}

Status Parser::attach(Expr& parent, ExprPtr child) {
  if (child && child->depth >= parent.depth) parent.depth = child->depth + 1;
  parent.children.push_back(std::move(child));
  if (parent.depth > kMaxNesting)
    return fail(ErrorCode::unsupported, "chat template, line " + std::to_string(parent.line),
                "depth of an expression", "at most " + std::to_string(kMaxNesting));
  return {};
}

Result<ExprPtr> Parser::expression(bool with_condition) {
  const Nest nest(nesting_);
  GYRE_TRY(nest.check());
  return with_condition ? choose() : logic(0);
}

Result<ExprPtr> Parser::choose() {
  const int line = now().line;
  const bool unknown_before = unknown_.has_value();
  GYRE_ASSIGN(ExprPtr value, logic(0));
  while (skip_name("if")) {
    if (!unknown_before) unknown_.reset();
    ExprPtr node = make(ExprKind::choose, line);
    const Nest conditional(conditional_);
    GYRE_ASSIGN(ExprPtr condition, logic(0));
    ExprPtr otherwise;
    if (skip_name("else")) {
      const Nest nest(nesting_);
      GYRE_TRY(nest.check());
      GYRE_ASSIGN(otherwise, choose());
    }
    GYRE_TRY(attach(*node, std::move(value)));
    GYRE_TRY(attach(*node, std::move(condition)));
    GYRE_TRY(attach(*node, std::move(otherwise)));
    value = std::move(node);
  }
  return value;
}

Result<ExprPtr> Parser::logic(int level) {
  const std::string_view word = level == 0 ? "or" : "and";
  GYRE_ASSIGN(ExprPtr left, level == 0 ? logic(1) : negation());
  while (at_name(word)) {
    ExprPtr node = make(level == 0 ? ExprKind::either : ExprKind::both, now().line);
    ++at_;
    GYRE_ASSIGN(ExprPtr right, level == 0 ? logic(1) : negation());
    GYRE_TRY(attach(*node, std::move(left)));
    GYRE_TRY(attach(*node, std::move(right)));
    left = std::move(node);
  }
  return left;
}

Result<ExprPtr> Parser::negation() {
  if (!at_name("not")) return compare();
  const Nest nest(nesting_);
  GYRE_TRY(nest.check());
  ExprPtr node = make(ExprKind::unary, now().line);
  node->text = "not";
  ++at_;
  GYRE_ASSIGN(ExprPtr value, negation());
  GYRE_TRY(attach(*node, std::move(value)));
  return node;
}

Result<ExprPtr> Parser::compare() {
  const int line = now().line;
  GYRE_ASSIGN(ExprPtr left, arithmetic(0));
  ExprPtr node;
  while (true) {
    std::string op;
    if (one_of(now(), {"==", "!=", "<", "<=", ">", ">="})) {
      op = tokens_[at_++].text;
    } else if (skip_name("in")) {
      op = "in";
    } else if (at_name("not") && ahead().kind == TokenKind::name && ahead().text == "in") {
      at_ += 2;
      op = "not in";
    } else {
      break;
    }
    if (!node) {
      node = make(ExprKind::compare, line);
      GYRE_TRY(attach(*node, std::move(left)));
    }
    GYRE_ASSIGN(ExprPtr right, arithmetic(0));
    node->ops.push_back(std::move(op));
    GYRE_TRY(attach(*node, std::move(right)));
  }
  if (!node) return left;
  return node;
}

Result<ExprPtr> Parser::arithmetic(int level) {
  const auto operand = [&]() {
    return level == 0 ? concat() : level == 2 ? arithmetic(3) : unary(true);
  };
  const auto here = [&] {
    return level == 0   ? one_of(now(), {"+", "-"})
           : level == 2 ? one_of(now(), {"*", "/", "//", "%"})
                        : at_op("**");
  };
  GYRE_ASSIGN(ExprPtr left, operand());
  while (here()) {
    ExprPtr node = make(ExprKind::binary, now().line);
    node->text = tokens_[at_++].text;
    GYRE_ASSIGN(ExprPtr right, operand());
    GYRE_TRY(attach(*node, std::move(left)));
    GYRE_TRY(attach(*node, std::move(right)));
    left = std::move(node);
  }
  return left;
}

Result<ExprPtr> Parser::concat() {
  const int line = now().line;
  GYRE_ASSIGN(ExprPtr left, arithmetic(2));
  if (!at_op("~")) return left;
  ExprPtr node = make(ExprKind::concat, line);
  GYRE_TRY(attach(*node, std::move(left)));
  while (skip_op("~")) {
    GYRE_ASSIGN(ExprPtr right, arithmetic(2));
    GYRE_TRY(attach(*node, std::move(right)));
  }
  return node;
}

Result<ExprPtr> Parser::unary(bool with_filter) {
  const Nest nest(nesting_);
  GYRE_TRY(nest.check());
  return unary_inner(with_filter);
}

Result<ExprPtr> Parser::unary_inner(bool with_filter) {
  ExprPtr node;
  if (at_op("-") || at_op("+")) {
    node = make(ExprKind::unary, now().line);
    node->text = tokens_[at_++].text;
    GYRE_ASSIGN(ExprPtr value, unary(false));
    GYRE_TRY(attach(*node, std::move(value)));
  } else {
    GYRE_ASSIGN(node, primary());
  }
  GYRE_ASSIGN(node, postfix(std::move(node)));
  if (!with_filter) return node;
  return filters_and_tests(std::move(node));
}

}  // namespace gyre::text::jinja
