// The tree of a parsed template. Immutable after parsing: any number of renders may read it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "text/jinja/value.h"

namespace gyre::text::jinja {

enum class ExprKind : uint8_t {
  literal,    // value
  name,       // text
  list,       // children
  tuple,      // children
  dict,       // children: key, value, key, value, ...
  attribute,  // children[0].text
  item,       // children[0][children[1]]
  slice,      // children: start, stop, step; each may be null
  call,       // children[0](arguments)
  filter,     // children[0] | text(arguments); children[0] may be null: the text of a block
  test,       // children[0] is text(arguments)
  unary,      // text: - + not
  binary,     // text: + - * / // % **
  compare,    // children[0] ops[0] children[1] ops[1] ...
  concat,     // children joined as text
  both,       // and
  either,     // or
  choose,     // children[0] if children[1] else children[2], which may be null
  member      // text.attribute as the target of a set: name in text, attribute in ops[0]
};

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct Expr {
  ExprKind kind = ExprKind::literal;
  int line = 0;
  int depth = 1;  // of the tree below; bounded by the parser, so that recursion over it is, too
  std::string text;
  Value value;
  std::vector<ExprPtr> children;
  std::vector<std::string> ops;
  std::vector<ExprPtr> positional;  // arguments of call, filter and test
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr rest, named_rest;  // *rest, **named_rest
};

enum class StatementKind : uint8_t {
  text,        // text
  output,      // expr
  condition,   // branches
  loop,        // target in expr if test: body, otherwise
  set,         // target = expr
  set_block,   // target = text of body, through expr (a filter chain on null) if there is one
  macro,       // text(parameters): body
  call_block,  // call expr with body as its caller
  filter,      // text of body through expr
  with,        // targets = values in a scope of their own
  scope,       // body in a scope of its own (generation)
  leave,       // break
  next         // continue
};

struct Statement;
using Body = std::vector<std::unique_ptr<Statement>>;

struct Statement {
  StatementKind kind = StatementKind::text;
  int line = 0;
  std::string text;
  ExprPtr expr, target, test;
  bool recursive = false;
  bool uses_varargs = false, uses_kwargs = false;  // macro: the names occur in it
  Body body, otherwise;
  std::vector<std::pair<ExprPtr, Body>> branches;           // condition; null: else
  std::vector<std::pair<std::string, ExprPtr>> parameters;  // default null: none
  std::vector<std::pair<ExprPtr, ExprPtr>> bindings;        // with
};

}  // namespace gyre::text::jinja
