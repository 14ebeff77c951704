// What the filters over lists share.
#pragma once

#include "text/jinja/interpreter.h"

namespace gyre::text::jinja {

// item.a.b for the path "a.b" (a number: an index); the item itself without a path.
Result<Value> picked(Interpreter& in, const Value& item, const Value* path);

}  // namespace gyre::text::jinja
