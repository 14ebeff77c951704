#include <algorithm>

#include "text/jinja/parser_state.h"

namespace gyre::text::jinja {
namespace {

// Joined by "or" for an error's text.
std::string any_of(const std::vector<std::string_view>& names) {
  std::string out;
  for (const std::string_view name : names)
    out += (out.empty() ? std::string() : std::string(" or ")) + std::string(name);
  return out;
}

}  // namespace

Result<Body> Parser::parse() {
  GYRE_ASSIGN(Body out, body({}));
  if (unknown_) return *std::move(unknown_);
  return out;
}

Result<Body> Parser::body(const Ends& ends) {
  const Nest nest(nesting_);
  GYRE_TRY(nest.check());
  Body out;
  while (true) {
    const Token& token = now();
    if (token.kind == TokenKind::end) {
      if (!ends.empty()) return unexpected("{% " + any_of(ends) + " %}");
      return out;
    }
    if (token.kind == TokenKind::data) {
      auto s = std::make_unique<Statement>();
      s->line = token.line;
      s->text = std::move(tokens_[at_++].text);
      out.push_back(std::move(s));
    } else if (token.kind == TokenKind::output_begin) {
      auto s = std::make_unique<Statement>();
      s->kind = StatementKind::output;
      s->line = token.line;
      ++at_;
      GYRE_ASSIGN(s->expr, tuple(false, true, false, false));
      if (now().kind != TokenKind::output_end) return unexpected("}}");
      ++at_;
      out.push_back(std::move(s));
    } else {
      ++at_;  // {%
      for (const std::string_view end : ends)
        if (at_name(end)) return out;
      if (now().kind == TokenKind::name && now().text.starts_with("end"))
        return unexpected(ends.empty() ? "no end tag, for nothing is open" : any_of(ends));
      GYRE_ASSIGN(auto s, statement());
      if (now().kind != TokenKind::block_end) return unexpected("%}");
      ++at_;
      out.push_back(std::move(s));
    }
  }
}

Result<Body> Parser::body_until(std::string_view end) {
  if (now().kind != TokenKind::block_end) return unexpected("%}");
  ++at_;
  GYRE_ASSIGN(Body out, body({end}));
  ++at_;
  return out;
}

Result<Parser::StatementPtr> Parser::statement() {
  auto s = std::make_unique<Statement>();
  s->line = now().line;
  GYRE_ASSIGN(const std::string name, identifier());
  return known_statement(name, std::move(s));
}

Result<Parser::StatementPtr> Parser::known_statement(const std::string& name, StatementPtr s) {
  Status status;
  if (name == "for") {
    status = for_loop(*s);
  } else if (name == "if") {
    status = condition(*s);
  } else if (name == "set") {
    status = set(*s);
  } else if (name == "macro") {
    status = macro(*s);
  } else if (name == "call") {
    status = call_block(*s);
  } else if (name == "filter") {
    status = filter_block(*s);
  } else if (name == "with") {
    status = with(*s);
  } else if (name == "generation") {
    status = in_scope(*s, "endgeneration");
  } else if (name == "break") {
    status = loop_control(*s, StatementKind::leave);
  } else if (name == "continue") {
    status = loop_control(*s, StatementKind::next);
  } else {
    --at_;
    return unexpected(
        "for, if, set, macro, call, filter, with, generation, break, continue or raw");
  }
  if (!status.ok()) return std::move(status).error();
  return s;
}

Status Parser::for_loop(Statement& s) {
  s.kind = StatementKind::loop;
  GYRE_ASSIGN(s.target, target(false, "in"));
  GYRE_TRY(expect_name("in"));
  GYRE_ASSIGN(s.expr, tuple(false, false, false, false, "recursive"));
  if (skip_name("if")) {
    GYRE_ASSIGN(s.test, expression());
  }
  s.recursive = skip_name("recursive");
  if (now().kind != TokenKind::block_end) return unexpected("%}");
  ++at_;
  {
    const Nest loop(loops_);
    GYRE_ASSIGN(s.body, body({"endfor", "else"}));
  }
  if (skip_name("endfor")) return {};
  ++at_;  // else
  GYRE_ASSIGN(s.otherwise, body_until("endfor"));
  return {};
}

Status Parser::condition(Statement& s) {
  s.kind = StatementKind::condition;
  const Nest conditional(conditional_);
  for (bool more = true; more;) {
    GYRE_ASSIGN(ExprPtr test, tuple(false, false, false, false));
    if (now().kind != TokenKind::block_end) return unexpected("%}");
    ++at_;
    GYRE_ASSIGN(Body then, body({"elif", "else", "endif"}));
    s.branches.emplace_back(std::move(test), std::move(then));
    more = skip_name("elif");
  }
  if (skip_name("endif")) return {};
  ++at_;  // else
  GYRE_ASSIGN(Body otherwise, body_until("endif"));
  s.branches.emplace_back(nullptr, std::move(otherwise));
  return {};
}

Status Parser::set(Statement& s) {
  GYRE_ASSIGN(s.target, target(true));
  if (skip_op("=")) {
    s.kind = StatementKind::set;
    GYRE_ASSIGN(s.expr, tuple(false, true, false, false));
    return {};
  }
  s.kind = StatementKind::set_block;
  GYRE_ASSIGN(s.expr, filter(nullptr, false));
  GYRE_ASSIGN(s.body, body_until("endset"));
  return {};
}

Status Parser::with(Statement& s) {
  s.kind = StatementKind::with;
  while (now().kind != TokenKind::block_end) {
    if (!s.bindings.empty()) GYRE_TRY(expect_op(","));
    GYRE_ASSIGN(ExprPtr name, target(false, "="));
    GYRE_TRY(expect_op("="));
    GYRE_ASSIGN(ExprPtr value, expression());
    s.bindings.emplace_back(std::move(name), std::move(value));
  }
  GYRE_ASSIGN(s.body, body_until("endwith"));
  return {};
}

Status Parser::signature(Statement& s) {
  GYRE_TRY(expect_op("("));
  while (!at_op(")")) {
    if (!s.parameters.empty()) GYRE_TRY(expect_op(","));
    GYRE_ASSIGN(std::string name, identifier());
    ExprPtr value;
    if (skip_op("=")) {
      GYRE_ASSIGN(value, expression());
    } else if (!s.parameters.empty() && s.parameters.back().second) {
      return unexpected("a default, as the parameter before has one");
    }
    s.parameters.emplace_back(std::move(name), std::move(value));
  }
  ++at_;
  return {};
}

Status Parser::macro(Statement& s) {
  s.kind = StatementKind::macro;
  GYRE_ASSIGN(s.text, identifier());
  GYRE_TRY(signature(s));
  const size_t begin = at_;
  const int loops = std::exchange(loops_, 0);
  GYRE_ASSIGN(s.body, body_until("endmacro"));
  loops_ = loops;
  for (size_t i = begin; i < at_; ++i) {
    if (tokens_[i].kind != TokenKind::name) continue;
    s.uses_varargs = s.uses_varargs || tokens_[i].text == "varargs";
    s.uses_kwargs = s.uses_kwargs || tokens_[i].text == "kwargs";
  }
  return {};
}

Status Parser::call_block(Statement& s) {
  s.kind = StatementKind::call_block;
  s.text = "caller";
  if (at_op("(")) GYRE_TRY(signature(s));
  GYRE_ASSIGN(s.expr, expression());
  if (s.expr->kind != ExprKind::call) return unexpected("a call");
  const int loops = std::exchange(loops_, 0);
  GYRE_ASSIGN(s.body, body_until("endcall"));
  loops_ = loops;
  return {};
}

Status Parser::filter_block(Statement& s) {
  s.kind = StatementKind::filter;
  GYRE_ASSIGN(s.expr, filter(nullptr, true));
  GYRE_ASSIGN(s.body, body_until("endfilter"));
  return {};
}

Status Parser::in_scope(Statement& s, std::string_view end) {
  s.kind = StatementKind::scope;
  GYRE_ASSIGN(s.body, body_until(end));
  return {};
}

Status Parser::loop_control(Statement& s, StatementKind kind) {
  s.kind = kind;
  if (loops_ > 0) return {};
  --at_;
  return unexpected("a loop around it");
}

Result<Body> parse_template(std::string_view source) {
  GYRE_ASSIGN(std::vector<Token> tokens, tokenize(source));
  return Parser(std::move(tokens)).parse();
}

}  // namespace gyre::text::jinja
