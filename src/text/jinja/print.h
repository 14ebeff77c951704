// Values as text: Python's str and repr, and json.dumps as transformers' tojson calls it.
//
// Appends to `out`; errors: a limit of the budget, or (JSON) a value that JSON does not know.
#pragma once

#include <string>

#include "base/result.h"
#include "text/jinja/budget.h"
#include "text/jinja/value.h"

namespace gyre::text::jinja {

Status append_str(Budget& budget, const Value& value, std::string& out);
Status append_repr(Budget& budget, const Value& value, std::string& out);

std::string int_text(Int value);
std::string float_text(double value);  // as Python's repr: shortest digits that read back

struct JsonStyle {
  bool ensure_ascii = false, sort_keys = false;
  bool pretty = false;  // indent was given
  std::string indent, item_separator = ", ", key_separator = ": ";
};
Status append_json(Budget& budget, const Value& value, const JsonStyle& style, std::string& out);

}  // namespace gyre::text::jinja
