// Command-line flags as a table: name, where the value goes, what is allowed.
//
// A table of our own and no library: every refusal must read `--flag: value, expected ...` and end
// in exit status 2 (design: stable command line).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"

namespace gyre::apps {

class Flags {
 public:
  explicit Flags(std::string command) : command_(std::move(command)) {}

  Flags& text(const char* name, std::string* out, const char* help);
  Flags& toggle(const char* name, bool* out, const char* help);
  Flags& integer(const char* name, int64_t* out, int64_t low, int64_t high, const char* help);
  Flags& real(const char* name, double* out, double low, double high, const char* help);
  Flags& optional_integer(const char* name, std::optional<uint64_t>* out, const char* help);
  // One word without a dash (a model path); `out` stays empty when absent.
  Flags& positional(std::string* out, const char* help);

  // "-x" and "--long" both work where a name holds "-x,--long".
  Status parse(const std::vector<std::string>& arguments);
  bool was_given(const std::string& name) const;
  std::string help() const;
  bool wants_help() const { return wants_help_; }

 private:
  struct Integer {
    int64_t* out;
    int64_t low, high;
  };
  struct Real {
    double* out;
    double low, high;
  };
  struct Flag {
    std::vector<std::string> names;
    std::variant<std::string*, bool*, Integer, Real, std::optional<uint64_t>*> target;
    std::string help;
    bool given = false;
  };
  Flags& add(const char* name, decltype(Flag::target) target, const char* help);
  Flag* find(const std::string& name);
  static Status assign(const Flag& flag, const std::string& name, const std::string& value);

  std::string command_;
  std::vector<Flag> flags_;
  std::string* positional_ = nullptr;
  std::string positional_help_;
  bool wants_help_ = false;
};

}  // namespace gyre::apps
