// Tokens to a tree: the statements and expressions of Jinja 3.1, with loop controls and the
// `generation` tag of transformers. Errors: bad_file with the line and what was expected.
#pragma once

#include <string_view>

#include "base/result.h"
#include "text/jinja/ast.h"

namespace gyre::text::jinja {

// Nesting of tags and depth of expressions; a tree within it is safe to walk by recursion.
inline constexpr int kMaxNesting = 200;

Result<Body> parse_template(std::string_view source);

}  // namespace gyre::text::jinja
