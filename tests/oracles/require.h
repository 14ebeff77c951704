// Preconditions of the oracles.
//
// An oracle is a tool of tests: a call that the documents leave undefined is a mistake of the test
// that made it, so it throws and the test fails (or expects it). Nothing under src/ includes this.
#pragma once

#include <stdexcept>
#include <string>

namespace gyre::oracles {

struct PreconditionError : std::logic_error {
  using std::logic_error::logic_error;
};

inline void require(bool holds, const char* what) {
  if (!holds) throw PreconditionError(what);
}
inline void require(bool holds, const std::string& what) {
  if (!holds) throw PreconditionError(what);
}

}  // namespace gyre::oracles
