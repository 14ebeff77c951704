#include "apps/flags.h"

#include <cctype>
#include <charconv>
#include <cmath>
#include <sstream>

namespace gyre::apps {
namespace {

template <class... F>
struct Overload : F... {
  using F::operator()...;
};
template <class... F>
Overload(F...) -> Overload<F...>;

template <class Number>
bool whole(const std::string& text, Number* out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc{} && end == text.data() + text.size();
}

std::string spell(double value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

// "-1" and "-0.5" are values, "-m" is a flag.
bool looks_like_flag(const std::string& word) {
  return word.size() > 1 && word[0] == '-' && word[1] != '.' &&
         !std::isdigit(static_cast<unsigned char>(word[1]));
}

}  // namespace

Flags& Flags::add(const char* name, decltype(Flag::target) target, const char* help) {
  Flag flag{{}, target, help};
  std::istringstream names(name);
  for (std::string one; std::getline(names, one, ',');) flag.names.push_back(one);
  flags_.push_back(std::move(flag));
  return *this;
}

Flags& Flags::text(const char* name, std::string* out, const char* help) {
  return add(name, out, help);
}
Flags& Flags::toggle(const char* name, bool* out, const char* help) {
  return add(name, out, help);
}
Flags& Flags::integer(const char* name, int64_t* out, int64_t low, int64_t high, const char* help) {
  return add(name, Integer{out, low, high}, help);
}
Flags& Flags::real(const char* name, double* out, double low, double high, const char* help) {
  return add(name, Real{out, low, high}, help);
}
Flags& Flags::optional_integer(const char* name, std::optional<uint64_t>* out, const char* help) {
  return add(name, out, help);
}
Flags& Flags::positional(std::string* out, const char* help) {
  positional_ = out;
  positional_help_ = help;
  return *this;
}

Flags::Flag* Flags::find(const std::string& name) {
  for (Flag& flag : flags_)
    for (const std::string& one : flag.names)
      if (one == name) return &flag;
  return nullptr;
}

bool Flags::was_given(const std::string& name) const {
  for (const Flag& flag : flags_)
    for (const std::string& one : flag.names)
      if (one == name) return flag.given;
  return false;
}

Status Flags::assign(const Flag& flag, const std::string& name, const std::string& value) {
  auto refuse = [&](const std::string& expected) -> Status {
    return fail(ErrorCode::usage, name, value.empty() ? "\"\"" : value, expected);
  };
  return std::visit(
      Overload{[&](std::string* out) -> Status {
                 *out = value;
                 return {};
               },
               [&](bool*) -> Status { return refuse("no value"); },
               [&](const Integer& i) -> Status {
                 int64_t number = 0;
                 if (!whole(value, &number) || number < i.low || number > i.high)
                   return refuse("an integer from " + std::to_string(i.low) + " to " +
                                 std::to_string(i.high));
                 *i.out = number;
                 return {};
               },
               [&](const Real& r) -> Status {
                 double number = 0;
                 if (!whole(value, &number) || !(number >= r.low && number <= r.high))
                   return refuse("a number from " + spell(r.low) + " to " + spell(r.high));
                 *r.out = number;
                 return {};
               },
               [&](std::optional<uint64_t>* out) -> Status {
                 uint64_t number = 0;
                 if (!whole(value, &number)) return refuse("an integer from 0 to 2^64 - 1");
                 *out = number;
                 return {};
               }},
      flag.target);
}

Status Flags::parse(const std::vector<std::string>& arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word == "-h" || word == "--help") {
      wants_help_ = true;
      return {};
    }
    if (!looks_like_flag(word)) {
      if (positional_ == nullptr || !positional_->empty())
        return fail(ErrorCode::usage, "argument", word,
                    "a flag (see gyre " + command_ + " --help)");
      *positional_ = word;
      continue;
    }
    const size_t equals = word.starts_with("--") ? word.find('=') : std::string::npos;
    const std::string name = word.substr(0, equals);
    Flag* flag = find(name);
    if (flag == nullptr)
      return fail(ErrorCode::usage, "flag", name,
                  "a flag of this command (see gyre " + command_ + " --help)");
    flag->given = true;
    if (bool** toggle = std::get_if<bool*>(&flag->target); toggle && equals == std::string::npos) {
      **toggle = true;
      continue;
    }
    if (equals != std::string::npos) {
      GYRE_TRY(assign(*flag, name, word.substr(equals + 1)));
    } else if (i + 1 < arguments.size()) {
      GYRE_TRY(assign(*flag, name, arguments[++i]));
    } else {
      return fail(ErrorCode::usage, name, "nothing", "a value");
    }
  }
  return {};
}

std::string Flags::help() const {
  std::string out = "usage: gyre " + command_ + " [flags]";
  if (positional_ != nullptr) out += " " + positional_help_;
  out += "\n";
  for (const Flag& flag : flags_) {
    std::string line = "  ";
    for (const std::string& name : flag.names) line += (line.size() > 2 ? ", " : "") + name;
    line.resize(std::max<size_t>(line.size() + 2, 26), ' ');
    out += line + flag.help + "\n";
  }
  return out;
}

}  // namespace gyre::apps
