#include "text/chat_template.h"

#include "text/jinja/interpreter.h"
#include "text/jinja/json_value.h"
#include "text/jinja/parser.h"

namespace gyre::text {
namespace {

constexpr size_t kMaxSource = size_t{1} << 20;

}  // namespace

struct ChatTemplate::Tree {
  jinja::Body body;
};

ChatTemplate::ChatTemplate(std::unique_ptr<Tree> tree, Options options)
    : tree_(std::move(tree)), options_(std::move(options)) {}
ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;

Result<ChatTemplate> ChatTemplate::parse(std::string_view source, Options options) {
  if (source.size() > kMaxSource)
    return fail(ErrorCode::unsupported, "chat template size", std::to_string(source.size()),
                "at most " + std::to_string(kMaxSource) + " bytes");
  auto tree = std::make_unique<Tree>();
  GYRE_ASSIGN(tree->body, jinja::parse_template(source));
  return ChatTemplate(std::move(tree), std::move(options));
}

Result<std::string> ChatTemplate::render(const Json& context, const RenderOptions& options) const {
  if (!context.is_object())
    return fail(ErrorCode::usage, "chat template context", context.type_name(), "an object");
  GYRE_ASSIGN(const jinja::Value inputs, jinja::from_json(context));
  jinja::DictObject& names = inputs.entries();
  const auto set_default = [&](std::string_view name, jinja::Value value) {
    if (names.find(name) == nullptr) names.set(name, std::move(value));
  };
  set_default("bos_token", jinja::Value::string(options_.bos_token));
  set_default("eos_token", jinja::Value::string(options_.eos_token));
  set_default("tools", jinja::Value::none());
  set_default("documents", jinja::Value::none());
  set_default("add_generation_prompt", jinja::Value::boolean(false));
  jinja::add_globals(names);
  return jinja::Interpreter(options.limits, options.now).run(tree_->body, names);
}

ChatTemplate::Json user_message_context(std::string_view content) {
  ChatTemplate::Json message = ChatTemplate::Json::object();
  message["role"] = "user";
  message["content"] = content;
  ChatTemplate::Json context = ChatTemplate::Json::object();
  context["messages"] = ChatTemplate::Json::array({std::move(message)});
  context["add_generation_prompt"] = true;
  return context;
}

}  // namespace gyre::text
