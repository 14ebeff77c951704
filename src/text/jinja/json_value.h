// JSON documents as values of a template.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "base/result.h"
#include "text/jinja/value.h"

namespace gyre::text::jinja {

// Errors: unsupported for a document nested deeper than 200.
Result<Value> from_json(const nlohmann::ordered_json& json);

// Errors: usage for a text that is no JSON; unsupported for its depth.
Result<Value> parse_json(std::string_view text);

}  // namespace gyre::text::jinja
