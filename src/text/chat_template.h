// A model's chat template: Jinja text in, prompt out.
//
// The engine (text/jinja/) is ours, for what templates of models use, with the meaning of jinja2 as
// transformers sets it up; docs/formats/chat-templates.md names the language and its limits.
// Templates come with downloaded models and are not trusted: a render has bounded steps, depth,
// memory and output, and reaches nothing but its inputs.
#pragma once

#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "text/jinja/budget.h"

namespace gyre::text {

// Immutable: any number of threads may render at once.
class ChatTemplate {
 public:
  using Json = nlohmann::ordered_json;
  using Limits = jinja::Limits;

  // The names that every render sees, besides its context.
  struct Options {
    std::string bos_token, eos_token;
  };
  struct RenderOptions {
    Limits limits;
    std::optional<std::tm> now;  // local time for strftime_now; without it the call is an error
  };

  // Errors: bad_file with the line and what was expected; unsupported for a template over a limit
  // of size (1 MiB), tokens or nesting.
  static Result<ChatTemplate> parse(std::string_view source, Options options);

  // `context`: an object with `messages` and what else the template may read (tools,
  // add_generation_prompt, ...). As in transformers `tools` and `documents` are none when absent.
  // Errors: usage with the line for what the template or its inputs do wrong, raise_exception
  // included; unsupported, naming the limit, for a render that takes too much.
  Result<std::string> render(const Json& context, const RenderOptions& options) const;
  Result<std::string> render(const Json& context) const { return render(context, {}); }

  ~ChatTemplate();
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;

 private:
  struct Tree;
  ChatTemplate(std::unique_ptr<Tree> tree, Options options);
  std::unique_ptr<Tree> tree_;
  Options options_;
};

// One user message and the start of the answer: what `generate` sends.
ChatTemplate::Json user_message_context(std::string_view content);

}  // namespace gyre::text
