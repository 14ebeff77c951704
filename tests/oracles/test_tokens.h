// Short ways to write tokens in the oracles' tests.
#pragma once

#include <string>
#include <vector>

#include "oracles/columns.h"

namespace gyre::oracles {

// first, first + 1, ..., first + count - 1
inline Tokens run(Token first, int64_t count) {
  Tokens out;
  for (int64_t i = 0; i < count; ++i) out.push_back(first + i);
  return out;
}

// "1 2 ·" of a row's columns.
inline std::string text(const Tokens& tokens) {
  std::string out;
  for (const Token token : tokens) {
    if (!out.empty()) out += ' ';
    out += token == kNoToken ? std::string("·") : std::to_string(token);
  }
  return out;
}

// The newest `window` of the first `count` tokens of a history.
inline Tokens newest(const Tokens& history, int64_t count, int64_t window) {
  const int64_t from = count > window ? count - window : 0;
  return {history.begin() + from, history.begin() + count};
}

}  // namespace gyre::oracles
