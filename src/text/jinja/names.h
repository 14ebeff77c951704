// The names a template may use without defining them.
#pragma once

#include <string_view>

namespace gyre::text::jinja {

bool known_filter(std::string_view name);
bool known_test(std::string_view name);

}  // namespace gyre::text::jinja
