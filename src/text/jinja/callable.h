// Things a template can call: functions of the environment, methods of values, macros, loops.
#pragma once

#include "text/jinja/value.h"

namespace gyre::text::jinja {

struct Statement;
struct Scope;

struct Args {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

enum class CallKind : uint8_t { function, method, macro, loop, cycler, joiner };

struct CallableObject : Object {
  CallableObject(CallKind k, std::string n) : kind(k), name(std::move(n)) {}
  ~CallableObject() override { bury(std::move(receiver)); }
  CallKind kind;
  std::string name;
  Value receiver;                   // method: the value it belongs to; loop, cycler: its items
  const Statement* body = nullptr;  // macro: its definition; loop: the statement
  std::shared_ptr<Scope> scope;     // macro, loop: where its names are looked up
  size_t position = 0;              // loop: index0; cycler: next item; joiner: used
  size_t depth0 = 0;                // loop: how often it recurses
  Value last_changed;               // loop.changed()
};

}  // namespace gyre::text::jinja
