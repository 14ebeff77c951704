// Template text to tokens, with Jinja's whitespace rules as transformers sets them: trim_blocks,
// lstrip_blocks, and the newline at the end of the template dropped.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/jinja/value.h"

namespace gyre::text::jinja {

enum class TokenKind : uint8_t {
  data,
  output_begin,
  output_end,
  block_begin,
  block_end,
  name,
  string,
  integer,
  real,
  op,
  end
};

struct Token {
  TokenKind kind = TokenKind::end;
  int line = 1;
  std::string text;  // data, name, op; the decoded text of a string
  Value value;       // integer, real
};

// All tokens, the last of kind end. Errors: bad_file with the line; unsupported past a limit.
Result<std::vector<Token>> tokenize(std::string_view source);

}  // namespace gyre::text::jinja
