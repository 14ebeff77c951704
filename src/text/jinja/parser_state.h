// The parser's cursor and its two halves; internal to parser_*.cc.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "text/jinja/lexer.h"
#include "text/jinja/parser.h"

namespace gyre::text::jinja {

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  Result<Body> parse();

 private:
  // Cursor (parser_expressions.cc)
  const Token& now() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  bool at_op(std::string_view op) const { return now().kind == TokenKind::op && now().text == op; }
  bool at_name(std::string_view name) const {
    return now().kind == TokenKind::name && now().text == name;
  }
  bool skip_op(std::string_view op);
  bool skip_name(std::string_view name);
  Status expect_op(std::string_view op);
  Status expect_name(std::string_view name);
  Result<std::string> identifier();
  Error unexpected(std::string_view expected) const;
  ExprPtr make(ExprKind kind, int line) const;
  Status attach(Expr& parent, ExprPtr child);  // keeps the depth, and its limit

  // Expressions (parser_expressions.cc)
  Result<ExprPtr> expression(bool with_condition = true);
  Result<ExprPtr> choose();
  Result<ExprPtr> logic(int level);  // 0: or, 1: and
  Result<ExprPtr> negation();
  Result<ExprPtr> compare();
  Result<ExprPtr> arithmetic(int level);  // 0: + -, 1: ~, 2: * / // %, 3: **
  Result<ExprPtr> concat();
  Result<ExprPtr> unary(bool with_filter);
  Result<ExprPtr> unary_inner(bool with_filter);

  // Operands (parser_operands.cc)
  Result<ExprPtr> primary(bool with_member = false);
  Result<ExprPtr> tuple(bool simple, bool with_condition, bool parentheses, bool with_member,
                        std::string_view end_name = {});
  Result<ExprPtr> list();
  Result<ExprPtr> dict();
  Result<ExprPtr> postfix(ExprPtr node);
  Result<ExprPtr> filters_and_tests(ExprPtr node);
  Result<ExprPtr> subscript(ExprPtr node);
  Result<ExprPtr> subscribed();
  Result<ExprPtr> call(ExprPtr node);
  Status arguments(Expr& node);
  Status argument(Expr& node);
  Result<ExprPtr> filter(ExprPtr node, bool start_inline);
  Result<ExprPtr> test(ExprPtr node);
  void note_unknown(std::string_view what, const Expr& node);
  Result<std::string> dotted_name();
  Result<ExprPtr> target(bool with_member, std::string_view end_name = {});

  // Statements (parser_statements.cc)
  using Ends = std::vector<std::string_view>;
  // Reads up to a block that starts with one of `ends`, and stops at that name.
  Result<Body> body(const Ends& ends);
  Result<Body> body_until(std::string_view end);  // and eats the end
  Status block(Body& out);
  using StatementPtr = std::unique_ptr<Statement>;
  Result<StatementPtr> statement();
  Result<StatementPtr> known_statement(const std::string& name, StatementPtr s);
  Status for_loop(Statement& s);
  Status condition(Statement& s);
  Status set(Statement& s);
  Status with(Statement& s);
  Status signature(Statement& s);
  Status macro(Statement& s);
  Status call_block(Statement& s);
  Status filter_block(Statement& s);
  Status in_scope(Statement& s, std::string_view end);
  Status loop_control(Statement& s, StatementKind kind);

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int nesting_ = 0;               // of tags and brackets
  int conditional_ = 0;           // inside an if: unknown filters and tests are found when they run
  std::optional<Error> unknown_;  // the first unknown filter or test that surely runs
  int loops_ = 0;
};

// Counts a level of recursion for as long as it lives.
class Nest {
 public:
  explicit Nest(int& level) : level_(++level) {}
  ~Nest() { --level_; }
  Nest(const Nest&) = delete;
  Nest& operator=(const Nest&) = delete;
  Status check() const;

 private:
  int& level_;
};

}  // namespace gyre::text::jinja
