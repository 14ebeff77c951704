// Errors as values: a closed list of kinds, one line of text, and Result<T>.
//
// Every room returns Result or Status; no exception crosses a room's door. The text has one form,
// made by fail(): "what: value, expected ...". A Result that is dropped is a compiler warning.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace gyre {

enum class ErrorCode {
  usage,             // the command line or a request's parameter is wrong; exit 2
  bad_file,          // a file's bytes break their own format
  unsupported,       // well formed, but something that Gyre refuses by name
  not_found,         // no such file, tensor, key, ...
  io,                // the system refused a file operation
  out_of_memory,     // an allocation failed, or could never succeed
  context_overflow,  // more positions than the model or the pool can hold
  non_finite,        // a NaN or Inf appeared in a row
  cancelled,
  internal,  // our own mistake
};

std::string_view error_name(ErrorCode code);

struct Error {
  ErrorCode code = ErrorCode::internal;
  std::string text;
};

// "what: value, expected expected"; an empty value or expectation is left out.
Error fail(ErrorCode code, std::string_view what, std::string_view value = {},
           std::string_view expected = {});

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() & { return check(), *std::get_if<0>(&state_); }
  const T& value() const& { return check(), *std::get_if<0>(&state_); }
  T&& value() && { return check(), std::move(*std::get_if<0>(&state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  const Error& error() const& { return *std::get_if<1>(&state_); }
  Error&& error() && { return std::move(*std::get_if<1>(&state_)); }

 private:
  void check() const {
    if (!ok()) {
      std::fprintf(stderr, "gyre: internal: value of a failed Result: %s\n", error().text.c_str());
      std::abort();
    }
  }
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)), ok_(false) {}
  bool ok() const { return ok_; }
  explicit operator bool() const { return ok_; }
  const Error& error() const& { return error_; }
  Error&& error() && { return std::move(error_); }

 private:
  Error error_;
  bool ok_ = true;
};
using Status = Result<void>;

// GYRE_TRY(status expression);                      returns the error, if any
// GYRE_ASSIGN(auto file, os::File::open(path));     declares or assigns the value
#define GYRE_TRY(expression)                                  \
  do {                                                        \
    if (auto gyre_status_ = (expression); !gyre_status_.ok()) \
      return std::move(gyre_status_).error();                 \
  } while (false)
#define GYRE_CONCAT2_(a, b) a##b
#define GYRE_CONCAT_(a, b) GYRE_CONCAT2_(a, b)
#define GYRE_ASSIGN(target, expression)                             \
  auto GYRE_CONCAT_(gyre_result_, __LINE__) = (expression);         \
  if (!GYRE_CONCAT_(gyre_result_, __LINE__).ok())                   \
    return std::move(GYRE_CONCAT_(gyre_result_, __LINE__)).error(); \
  target = std::move(GYRE_CONCAT_(gyre_result_, __LINE__)).value()

}  // namespace gyre
