#include "text/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "loaders/weight_source.h"

namespace gyre::text {
namespace {

using Json = ChatTemplate::Json;
using testing::HasSubstr;

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  std::stringstream out;
  out << file.rdbuf();
  return out.str();
}

const std::string& folder() {
  static const std::string path = std::string(GYRE_SOURCE_DIR) + "/tests/golden/chat/";
  return path;
}

// Tuesday, 3 November 2026, 14:05:09, as tests/oracle/make_chat_template_goldens.py has it.
ChatTemplate::RenderOptions options() {
  ChatTemplate::RenderOptions out;
  std::tm now{};
  now.tm_year = 126, now.tm_mon = 10, now.tm_mday = 3;
  now.tm_hour = 14, now.tm_min = 5, now.tm_sec = 9;
  now.tm_wday = 2, now.tm_yday = 306;
  out.now = now;
  return out;
}

Result<std::string> render(std::string_view source, const Json& context = Json::object(),
                           const ChatTemplate::RenderOptions& how = options()) {
  GYRE_ASSIGN(const ChatTemplate chat, ChatTemplate::parse(source, {"<s>", "</s>"}));
  return chat.render(context, how);
}

std::string error_of(std::string_view source, const Json& context = Json::object(),
                     const ChatTemplate::RenderOptions& how = options()) {
  const Result<std::string> out = render(source, context, how);
  return out.ok() ? "no error: " + *out : out.error().text;
}

TEST(ChatTemplate, RendersAsJinja2DoesForEveryGolden) {
  const Json conversations = Json::parse(read(folder() + "conversations.json"));
  std::istringstream lines(read(folder() + "expected.txt"));
  std::string line;
  size_t cases = 0;
  while (std::getline(lines, line)) {
    const size_t first = line.find(' '), second = line.find(' ', first + 1);
    const std::string name = line.substr(0, first);
    const std::string talk = line.substr(first + 1, second - first - 1);
    const std::string want = line.substr(second + 1);
    const Result<std::string> out =
        render(read(folder() + name + ".jinja"), conversations.at(talk));
    ++cases;
    if (want == "error") {
      EXPECT_FALSE(out.ok()) << name << " " << talk << " gave " << *out;
    } else if (!out.ok()) {
      ADD_FAILURE() << name << " " << talk << ": " << out.error().text;
    } else {
      EXPECT_EQ(*out, Json::parse(want).get<std::string>()) << name << " " << talk;
    }
  }
  EXPECT_GE(cases, 60u * 8u);
}

// The lists that set x = x.append(...) builds need a looser sandbox than transformers has.
TEST(ChatTemplate, ListsCanGrow) {
  EXPECT_EQ(*render("{% set a = [] %}{% set _ = a.append(1) %}{% set _ = a.extend('xy') %}"
                    "{% set _ = a.insert(0, none) %}{{ a }} {{ a.pop(0) }} {{ a.pop() }} {{ a }}"),
            "[None, 1, 'x', 'y'] None y [1, 'x']");
  EXPECT_THAT(error_of("{{ [].pop() }}"), HasSubstr("out of range"));
  EXPECT_THAT(error_of("{{ {}.update({'a': 1}) }}"), HasSubstr("dict.update: refused"));
  EXPECT_EQ(*render("{% set a = [1] %}{% set _ = a.append(a) %}{{ a|length }}"), "2");
}

TEST(ChatTemplate, ReadsJson) {
  EXPECT_EQ(*render("{{ ('{\"a\": [1, 2.5, null]}'|from_json).a }}"), "[1, 2.5, None]");
  EXPECT_THAT(error_of("{{ '{'|from_json }}"), HasSubstr("from_json"));
}

TEST(ChatTemplate, ParseErrorsNameLineAndExpectation) {
  const std::pair<const char*, const char*> kCases[] = {
      {"a\n{{ x ", "line 2: {{, expected }} that ends the tag"},
      {"{% if x %}\n\ny", "line 3: the end, expected {% elif or else or endif %}"},
      {"{% endif %}", "line 1: endif, expected no end tag, for nothing is open"},
      {"\n{% for x %}{% endfor %}", "line 2: %}, expected in"},
      {"{{ 1 + }}", "line 1: }}, expected an expression"},
      {"{{ (1 }}", "line 1: }, expected )"},
      {"{{ 1 ] }}", "line 1: ], expected no closing bracket"},
      {"{{ 'a }}", "line 1: ', expected the string's end"},
      {"{# x", "line 1: {#, expected #} that ends the comment"},
      {"{% raw %}", "line 1: raw, expected {% endraw %}"},
      {"{% break %}", "line 1: break, expected a loop around it"},
      {"{% include 'x' %}", "line 1: include, expected for, if, set"},
      {"{{ x|nope }}", "line 1: filter nope, expected a known filter"},
      {"{{ x is nope }}", "line 1: test nope, expected a known test"},
      {"{% set 1 = 2 %}", "expected names to assign to"},
      {"{{ 99999999999999999999 }}", "expected a number of at most 63 bits"}};
  for (const auto& [source, want] : kCases) {
    const auto parsed = ChatTemplate::parse(source, {});
    ASSERT_FALSE(parsed.ok()) << source;
    EXPECT_EQ(parsed.error().code, ErrorCode::bad_file) << source;
    EXPECT_THAT(parsed.error().text, HasSubstr(want)) << source;
  }
}

TEST(ChatTemplate, RunErrorsNameLineAndCause) {
  EXPECT_EQ(error_of("\n{{ raise_exception('no ' ~ 1) }}"),
            "chat template, line 2: raise_exception: no 1");
  EXPECT_EQ(error_of("{{ a.b }}"), "chat template, line 1: 'a' is undefined");
  EXPECT_THAT(error_of("{{ 1 + 'a' }}"), HasSubstr("operator +: int and str"));
  EXPECT_THAT(error_of("{{ 1 // 0 }}"), HasSubstr("division by zero"));
  EXPECT_THAT(error_of("{{ 2 ** 200 }}"), HasSubstr("integer: too large"));
  EXPECT_THAT(error_of("{{ strftime_now('%Y') }}", Json::object(), {}), HasSubstr("no clock"));
  EXPECT_THAT(error_of("{% for x in 5 %}{% endfor %}"), HasSubstr("iteration: int"));
  EXPECT_EQ(render("{{ 1 + 'a' }}").error().code, ErrorCode::usage);
}

TEST(ChatTemplate, LimitsAreNamed) {
  ChatTemplate::RenderOptions small = options();
  small.limits.steps = 10000;
  const auto limited = [&](std::string_view source) {
    return error_of(source, Json::object(), small);
  };
  EXPECT_THAT(limited("{% for i in range(99999) %}{% endfor %}"), HasSubstr("steps"));
  EXPECT_THAT(error_of("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"), HasSubstr("depth"));
  EXPECT_THAT(error_of("{{ 'x' * 1000000000 }}"), HasSubstr("bytes of one text"));
  EXPECT_THAT(error_of("{{ [0] * 1000000000 }}"), HasSubstr("memory"));
  EXPECT_THAT(error_of("{{ range(200000) }}"), HasSubstr("at most 100000"));
  EXPECT_THAT(error_of("{% set ns = namespace(x=[]) %}{% for i in range(2000) %}"
                       "{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}"),
              HasSubstr("depth"));
  EXPECT_THAT(limited("{% set ns = namespace(x=[1]) %}{% for i in range(60) %}"
                      "{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}"),
              HasSubstr("steps"));
  EXPECT_THAT(error_of("{{ " + std::string(5000, '(') + std::string(5000, ')') + " }}"),
              HasSubstr("nesting"));
  EXPECT_THAT(error_of("{{ " + std::string(5000, '[') + std::string(5000, ']') + " }}"),
              HasSubstr("nesting"));
  std::string sum = "{{ 1";
  for (int i = 0; i < 5000; ++i) sum += " + 1";
  EXPECT_THAT(error_of(sum + " }}"), HasSubstr("depth of an expression"));
  EXPECT_THAT(error_of(std::string((1 << 20) + 1, 'x')), HasSubstr("size"));
  EXPECT_EQ(render("{{ 'x' * 1000000000 }}").error().code, ErrorCode::unsupported);
}

// Values that hold themselves, and nestings too deep for a recursive destructor, end quietly.
TEST(ChatTemplate, CyclesAndDeepValuesAreFreed) {
  EXPECT_TRUE(
      render("{% set ns = namespace() %}{% set ns.me = ns %}{% macro f() %}{% endmacro %}").ok());
  EXPECT_TRUE(render("{% set ns = namespace(x=[]) %}{% for i in range(99999) %}"
                     "{% set ns.x = [ns.x] %}{% endfor %}")
                  .ok());
}

TEST(ChatTemplate, ContextWinsOverDefaults) {
  EXPECT_EQ(*render("{{ bos_token }}{{ tools }}{{ x }}", {{"bos_token", "B"}, {"x", 1.5}}),
            "BNone1.5");
  EXPECT_FALSE(render("x", Json::array()).ok());
}

TEST(ChatTemplate, ModelsOwnTemplate) {
  const std::string path = std::string(GYRE_SOURCE_DIR) + "/models/SmolLM2-135M-Instruct.Q4_1.gguf";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no model at hand: ./dev models";
  const auto source = loaders::open_weights(path);
  ASSERT_TRUE(source.ok());
  const auto text = (*source)->get_string_or("tokenizer.chat_template", "");
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(*render(*text, user_message_context("Hi")),
            "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging "
            "Face<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
}

}  // namespace
}  // namespace gyre::text
