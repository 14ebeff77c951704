#include "base/result.h"

namespace gyre {

std::string_view error_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::usage:
      return "usage";
    case ErrorCode::bad_file:
      return "bad_file";
    case ErrorCode::unsupported:
      return "unsupported";
    case ErrorCode::not_found:
      return "not_found";
    case ErrorCode::io:
      return "io";
    case ErrorCode::out_of_memory:
      return "out_of_memory";
    case ErrorCode::context_overflow:
      return "context_overflow";
    case ErrorCode::non_finite:
      return "non_finite";
    case ErrorCode::cancelled:
      return "cancelled";
    case ErrorCode::internal:
      return "internal";
  }
  return "unknown";
}

Error fail(ErrorCode code, std::string_view what, std::string_view value,
           std::string_view expected) {
  std::string text(what);
  if (!value.empty()) text.append(": ").append(value);
  if (!expected.empty()) text.append(", expected ").append(expected);
  // One line, whatever a file's strings contain.
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return {code, std::move(text)};
}

}  // namespace gyre
