#include "text/jinja/names.h"
#include "text/jinja/parser_state.h"

namespace gyre::text::jinja {

Result<ExprPtr> Parser::primary(bool with_member) {
  const Token& token = now();
  const int line = token.line;
  if (token.kind == TokenKind::name) {
    ExprPtr node = make(ExprKind::literal, line);
    const std::string& name = token.text;
    ++at_;
    if (name == "true" || name == "True" || name == "false" || name == "False") {
      node->value = Value::boolean(name[0] == 't' || name[0] == 'T');
    } else if (name == "none" || name == "None") {
      node->value = Value::none();
    } else if (with_member && skip_op(".")) {
      node->kind = ExprKind::member;
      node->text = name;
      GYRE_ASSIGN(std::string attribute, identifier());
      node->ops.push_back(std::move(attribute));
    } else {
      node->kind = ExprKind::name;
      node->text = name;
    }
    return node;
  }
  if (token.kind == TokenKind::string) {
    std::string text;
    while (now().kind == TokenKind::string) text += tokens_[at_++].text;
    ExprPtr node = make(ExprKind::literal, line);
    node->value = Value::string(std::move(text));
    return node;
  }
  if (token.kind == TokenKind::integer || token.kind == TokenKind::real) {
    ExprPtr node = make(ExprKind::literal, line);
    node->value = tokens_[at_++].value;
    return node;
  }
  if (skip_op("(")) {
    GYRE_ASSIGN(ExprPtr node, tuple(false, true, true, false));
    GYRE_TRY(expect_op(")"));
    return node;
  }
  if (at_op("[")) return list();
  if (at_op("{")) return dict();
  return unexpected("an expression");
}

Result<ExprPtr> Parser::tuple(bool simple, bool with_condition, bool parentheses, bool with_member,
                              std::string_view end_name) {
  const auto ends = [&] {
    return now().kind == TokenKind::output_end || now().kind == TokenKind::block_end ||
           at_op(")") || (!end_name.empty() && at_name(end_name));
  };
  ExprPtr node = make(ExprKind::tuple, now().line);
  bool is_tuple = false;
  while (true) {
    if (!node->children.empty()) GYRE_TRY(expect_op(","));
    if (ends()) break;
    GYRE_ASSIGN(ExprPtr item, simple ? primary(with_member) : expression(with_condition));
    GYRE_TRY(attach(*node, std::move(item)));
    if (!at_op(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && !node->children.empty()) return std::move(node->children[0]);
  if (!is_tuple && !parentheses) return unexpected("an expression");
  return node;
}

Result<ExprPtr> Parser::list() {
  ExprPtr node = make(ExprKind::list, now().line);
  GYRE_TRY(expect_op("["));
  while (!at_op("]")) {
    if (!node->children.empty()) GYRE_TRY(expect_op(","));
    if (at_op("]")) break;
    GYRE_ASSIGN(ExprPtr item, expression());
    GYRE_TRY(attach(*node, std::move(item)));
  }
  ++at_;
  return node;
}

Result<ExprPtr> Parser::dict() {
  ExprPtr node = make(ExprKind::dict, now().line);
  GYRE_TRY(expect_op("{"));
  while (!at_op("}")) {
    if (!node->children.empty()) GYRE_TRY(expect_op(","));
    if (at_op("}")) break;
    GYRE_ASSIGN(ExprPtr key, expression());
    GYRE_TRY(expect_op(":"));
    GYRE_ASSIGN(ExprPtr value, expression());
    GYRE_TRY(attach(*node, std::move(key)));
    GYRE_TRY(attach(*node, std::move(value)));
  }
  ++at_;
  return node;
}

Result<ExprPtr> Parser::postfix(ExprPtr node) {
  while (at_op(".") || at_op("[") || at_op("(")) {
    GYRE_ASSIGN(node, at_op("(") ? call(std::move(node)) : subscript(std::move(node)));
  }
  return node;
}

Result<ExprPtr> Parser::filters_and_tests(ExprPtr node) {
  while (true) {
    if (at_op("|")) {
      GYRE_ASSIGN(node, filter(std::move(node), false));
    } else if (at_name("is")) {
      GYRE_ASSIGN(node, test(std::move(node)));
    } else if (at_op("(")) {
      GYRE_ASSIGN(node, call(std::move(node)));
    } else {
      return node;
    }
  }
}

Result<ExprPtr> Parser::subscript(ExprPtr object) {
  const int line = now().line;
  if (skip_op(".")) {
    if (now().kind == TokenKind::name) {
      ExprPtr node = make(ExprKind::attribute, line);
      node->text = tokens_[at_++].text;
      GYRE_TRY(attach(*node, std::move(object)));
      return node;
    }
    if (now().kind != TokenKind::integer) return unexpected("a name or a number");
    ExprPtr node = make(ExprKind::item, line), index = make(ExprKind::literal, line);
    index->value = tokens_[at_++].value;
    GYRE_TRY(attach(*node, std::move(object)));
    GYRE_TRY(attach(*node, std::move(index)));
    return node;
  }
  GYRE_TRY(expect_op("["));
  ExprPtr node = make(ExprKind::item, line), indices = make(ExprKind::tuple, line);
  while (!at_op("]")) {
    if (!indices->children.empty()) GYRE_TRY(expect_op(","));
    GYRE_ASSIGN(ExprPtr one, subscribed());
    GYRE_TRY(attach(*indices, std::move(one)));
  }
  ++at_;
  GYRE_TRY(attach(*node, std::move(object)));
  if (indices->children.size() == 1) {
    GYRE_TRY(attach(*node, std::move(indices->children[0])));
  } else {
    GYRE_TRY(attach(*node, std::move(indices)));
  }
  return node;
}

Result<ExprPtr> Parser::subscribed() {
  ExprPtr slice = make(ExprKind::slice, now().line);
  ExprPtr part;
  if (!at_op(":")) {
    GYRE_ASSIGN(part, expression());
    if (!at_op(":")) return part;
  }
  GYRE_TRY(attach(*slice, std::move(part)));
  GYRE_TRY(expect_op(":"));
  for (int i = 0; i < 2; ++i) {  // stop, step
    ExprPtr next;
    if (i == 1 && !skip_op(":")) {
      // no step
    } else if (!at_op(":") && !at_op("]") && !at_op(",")) {
      GYRE_ASSIGN(next, expression());
    }
    GYRE_TRY(attach(*slice, std::move(next)));
  }
  return slice;
}

Result<ExprPtr> Parser::call(ExprPtr callee) {
  ExprPtr node = make(ExprKind::call, now().line);
  GYRE_TRY(attach(*node, std::move(callee)));
  GYRE_TRY(arguments(*node));
  return node;
}

Status Parser::arguments(Expr& node) {
  GYRE_TRY(expect_op("("));
  for (bool first = true; !at_op(")"); first = false) {
    if (!first) GYRE_TRY(expect_op(","));
    if (at_op(")")) break;
    GYRE_TRY(argument(node));
  }
  ++at_;
  const auto deepen = [&](const ExprPtr& e) {
    if (e && e->depth >= node.depth) node.depth = e->depth + 1;
  };
  for (const ExprPtr& e : node.positional) deepen(e);
  for (const auto& [name, e] : node.named) deepen(e);
  deepen(node.rest);
  deepen(node.named_rest);
  return {};
}

Status Parser::argument(Expr& node) {
  if (at_op("*") && !node.rest && !node.named_rest) {
    ++at_;
    GYRE_ASSIGN(node.rest, expression());
    return {};
  }
  if (at_op("**") && !node.named_rest) {
    ++at_;
    GYRE_ASSIGN(node.named_rest, expression());
    return {};
  }
  if (node.named_rest) return unexpected("the end of the arguments");
  if (now().kind == TokenKind::name && ahead().kind == TokenKind::op && ahead().text == "=") {
    std::string name = now().text;
    at_ += 2;
    GYRE_ASSIGN(ExprPtr value, expression());
    node.named.emplace_back(std::move(name), std::move(value));
    return {};
  }
  if (node.rest || !node.named.empty()) return unexpected("a named argument");
  GYRE_ASSIGN(ExprPtr value, expression());
  node.positional.push_back(std::move(value));
  return {};
}

Result<std::string> Parser::dotted_name() {
  GYRE_ASSIGN(std::string name, identifier());
  while (skip_op(".")) {
    GYRE_ASSIGN(const std::string part, identifier());
    name += "." + part;
  }
  return name;
}

void Parser::note_unknown(std::string_view what, const Expr& node) {
  if (conditional_ > 0 || unknown_) return;
  unknown_ = fail(ErrorCode::bad_file, "chat template, line " + std::to_string(node.line),
                  std::string(what) + " " + node.text, "a known " + std::string(what));
}

Result<ExprPtr> Parser::filter(ExprPtr node, bool start_inline) {
  while (at_op("|") || start_inline) {
    if (!start_inline) ++at_;
    start_inline = false;
    ExprPtr next = make(ExprKind::filter, now().line);
    GYRE_ASSIGN(next->text, dotted_name());
    if (!known_filter(next->text)) note_unknown("filter", *next);
    GYRE_TRY(attach(*next, std::move(node)));
    if (at_op("(")) GYRE_TRY(arguments(*next));
    node = std::move(next);
  }
  return node;
}

Result<ExprPtr> Parser::test(ExprPtr node) {
  ExprPtr next = make(ExprKind::test, now().line);
  ++at_;  // is
  const bool negated = skip_name("not");
  GYRE_ASSIGN(next->text, dotted_name());
  if (!known_test(next->text)) note_unknown("test", *next);
  GYRE_TRY(attach(*next, std::move(node)));
  const TokenKind kind = now().kind;
  if (at_op("(")) {
    GYRE_TRY(arguments(*next));
  } else if ((kind == TokenKind::name && !at_name("else") && !at_name("or") && !at_name("and")) ||
             kind == TokenKind::string || kind == TokenKind::integer || kind == TokenKind::real ||
             at_op("[") || at_op("{")) {
    if (at_name("is")) return unexpected("no second test");
    const Nest nest(nesting_);
    GYRE_TRY(nest.check());
    GYRE_ASSIGN(ExprPtr argument, primary());
    GYRE_ASSIGN(argument, postfix(std::move(argument)));
    if (argument->depth >= next->depth) next->depth = argument->depth + 1;
    next->positional.push_back(std::move(argument));
  }
  if (!negated) return next;
  ExprPtr inverse = make(ExprKind::unary, next->line);
  inverse->text = "not";
  GYRE_TRY(attach(*inverse, std::move(next)));
  return inverse;
}

Result<ExprPtr> Parser::target(bool with_member, std::string_view end_name) {
  GYRE_ASSIGN(ExprPtr node, tuple(true, false, false, with_member, end_name));
  const auto assignable = [](const Expr& e) {
    return e.kind == ExprKind::name || e.kind == ExprKind::member;
  };
  bool good = assignable(*node);
  if (node->kind == ExprKind::tuple) {
    good = !node->children.empty();
    for (const ExprPtr& part : node->children) good = good && assignable(*part);
  }
  if (!good) return unexpected("names to assign to");
  return node;
}

}  // namespace gyre::text::jinja
