#include "loaders/weight_source.h"

#include <optional>
#include <utility>

#include "loaders/gguf.h"

namespace gyre::loaders {
namespace {

constexpr const char* kTypeNames[] = {"a bool",
                                      "an integer",
                                      "an unsigned integer",
                                      "a float",
                                      "a string",
                                      "an array of bools",
                                      "an array of integers",
                                      "an array of unsigned integers",
                                      "an array of floats",
                                      "an array of strings"};

std::string field(std::string_view key) {
  return "metadata " + std::string(key);
}

Error wrong_type(std::string_view key, const MetaValue& value, const char* expected) {
  return fail(ErrorCode::bad_file, field(key), describe(value), expected);
}

// The value of type T behind a key; a missing key is an error unless there is a fallback.
template <class T>
Result<T> get(const WeightSource& source, std::string_view key, std::optional<T> fallback,
              const char* expected) {
  const MetaValue* value = source.meta(key);
  if (value == nullptr) {
    if (fallback) return std::move(*fallback);
    return fail(ErrorCode::not_found, field(key), "missing", expected);
  }
  if (const T* wanted = std::get_if<T>(value)) return T(*wanted);
  if constexpr (std::is_same_v<T, uint64_t>) {
    const auto* number = std::get_if<int64_t>(value);
    if (number != nullptr && *number >= 0) return static_cast<uint64_t>(*number);
  }
  return wrong_type(key, *value, expected);
}

constexpr const char* kU64 = "an integer of at least 0";
constexpr const char* kF64 = "a float";
constexpr const char* kString = "a string";
constexpr const char* kBool = "a bool";

}  // namespace

std::string describe(const MetaValue& value) {
  constexpr size_t kShown = 60;
  std::string shown = kTypeNames[value.index()];
  if (const auto* flag = std::get_if<bool>(&value)) return shown + (*flag ? " true" : " false");
  if (const auto* number = std::get_if<int64_t>(&value))
    return shown + ' ' + std::to_string(*number);
  if (const auto* number = std::get_if<uint64_t>(&value))
    return shown + ' ' + std::to_string(*number);
  if (const auto* number = std::get_if<double>(&value))
    return shown + ' ' + std::to_string(*number);
  if (const auto* text = std::get_if<std::string>(&value))
    return shown.append(" \"")
        .append(*text, 0, kShown)
        .append(text->size() > kShown ? "...\"" : "\"");
  return shown;
}

Result<uint64_t> WeightSource::get_u64(std::string_view key) const {
  return get<uint64_t>(*this, key, {}, kU64);
}
Result<double> WeightSource::get_f64(std::string_view key) const {
  return get<double>(*this, key, {}, kF64);
}
Result<std::string> WeightSource::get_string(std::string_view key) const {
  return get<std::string>(*this, key, {}, kString);
}
Result<bool> WeightSource::get_bool(std::string_view key) const {
  return get<bool>(*this, key, {}, kBool);
}
Result<uint64_t> WeightSource::get_u64_or(std::string_view key, uint64_t fallback) const {
  return get<uint64_t>(*this, key, fallback, kU64);
}
Result<double> WeightSource::get_f64_or(std::string_view key, double fallback) const {
  return get<double>(*this, key, fallback, kF64);
}
Result<std::string> WeightSource::get_string_or(std::string_view key, std::string fallback) const {
  return get<std::string>(*this, key, std::move(fallback), kString);
}
Result<bool> WeightSource::get_bool_or(std::string_view key, bool fallback) const {
  return get<bool>(*this, key, fallback, kBool);
}

Result<std::unique_ptr<WeightSource>> open_weights(const std::string& path) {
  return open_gguf(path);
}

}  // namespace gyre::loaders
