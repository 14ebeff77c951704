// Python's str, over UTF-8: positions are code points. Pure functions, any thread.
//
// Invalid UTF-8 passes through: decode_lenient() says what a code point is there.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace gyre::text::jinja {

bool is_space(uint32_t code_point);      // str.isspace()
bool is_printable(uint32_t code_point);  // str.isprintable()
bool is_cased(uint32_t code_point);

size_t length(std::string_view text);  // in code points
// Byte offset of the code point `index`, or the size of the text.
size_t byte_offset(std::string_view text, size_t index);
std::vector<std::string> code_points(std::string_view text);

std::string unix_newlines(std::string_view text);  // \r\n and \r become \n
// `chars`: what is stripped, as code points; white space if null.
std::string_view lstrip(std::string_view text, const std::string* chars = nullptr);
std::string_view rstrip(std::string_view text, const std::string* chars = nullptr);
std::string_view strip(std::string_view text, const std::string* chars = nullptr);

std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string capitalize(std::string_view text);
std::string swap_case(std::string_view text);
std::string title_method(std::string_view text);  // str.title()
std::string title_filter(std::string_view text);  // Jinja's title filter

// limit < 0: no limit. An empty separator is the caller's error.
std::vector<std::string> split(std::string_view text, std::string_view separator, int64_t limit);
std::vector<std::string> rsplit(std::string_view text, std::string_view separator, int64_t limit);
std::vector<std::string> split_space(std::string_view text, int64_t limit);
std::vector<std::string> rsplit_space(std::string_view text, int64_t limit);
std::vector<std::string> split_lines(std::string_view text, bool keep_ends = false);

// count < 0: all. An empty `from` matches between code points.
std::string replace(std::string_view text, std::string_view from, std::string_view to,
                    int64_t count);
size_t count(std::string_view text, std::string_view part);

std::string escape_html(std::string_view text);
// Python's escapes in a string literal; errors name the escape.
Result<std::string> unescape(std::string_view body);
// A decimal number as written in a template; "inf" and "nan", too. Bad text is NaN.
double parse_double(std::string_view text);
// Python's float(text): false if that raises.
bool float_from_text(std::string_view text, double* out);

}  // namespace gyre::text::jinja
