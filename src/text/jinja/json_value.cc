#include "text/jinja/json_value.h"

namespace gyre::text::jinja {
namespace {

using Json = nlohmann::ordered_json;
constexpr int kMaxDepth = 200;

Result<Value> convert(const Json& json, int depth) {
  if (depth > kMaxDepth)
    return fail(ErrorCode::unsupported, "JSON depth", "", "at most " + std::to_string(kMaxDepth));
  if (const auto* text = json.get_ptr<const Json::string_t*>()) return Value::string(*text);
  if (const auto* yes = json.get_ptr<const Json::boolean_t*>()) return Value::boolean(*yes);
  if (json.is_number_unsigned())
    return Value::integer(static_cast<Int>(*json.get_ptr<const Json::number_unsigned_t*>()));
  if (json.is_number_integer())
    return Value::integer(*json.get_ptr<const Json::number_integer_t*>());
  if (const auto* real = json.get_ptr<const Json::number_float_t*>()) return Value::real(*real);
  if (const auto* array = json.get_ptr<const Json::array_t*>()) {
    std::vector<Value> items;
    items.reserve(array->size());
    for (const Json& item : *array) {
      GYRE_ASSIGN(Value value, convert(item, depth + 1));
      items.push_back(std::move(value));
    }
    return Value::list(std::move(items));
  }
  if (const auto* object = json.get_ptr<const Json::object_t*>()) {
    auto dict = std::make_shared<DictObject>();
    for (const auto& [key, item] : *object) {
      GYRE_ASSIGN(Value value, convert(item, depth + 1));
      dict->set(key, std::move(value));
    }
    return Value::dict(std::move(dict));
  }
  return Value::none();
}

}  // namespace

Result<Value> from_json(const Json& json) {
  return convert(json, 0);
}

Result<Value> parse_json(std::string_view text) {
  // Deep texts are refused before the parser nests as deep.
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\' && quoted) ++i;
    if (c == '"') quoted = !quoted;
    if (!quoted && (c == '[' || c == '{') && ++depth > kMaxDepth)
      return fail(ErrorCode::unsupported, "JSON depth", "", "at most " + std::to_string(kMaxDepth));
    if (!quoted && (c == ']' || c == '}')) --depth;
  }
  const Json json = Json::parse(text.begin(), text.end(), nullptr, false);
  if (json.is_discarded()) return fail(ErrorCode::usage, "JSON", "broken", "a document");
  return convert(json, 0);
}

}  // namespace gyre::text::jinja
