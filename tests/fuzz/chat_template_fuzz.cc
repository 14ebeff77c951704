// A chat template from the input, rendered with small limits: the template's text, then after a
// zero byte, if there is one, the JSON of the context.
#include "text/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using gyre::text::ChatTemplate;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t end = input.find('\0');
  const auto chat = ChatTemplate::parse(input.substr(0, end), {"<s>", "</s>"});
  if (!chat.ok()) return 0;
  ChatTemplate::Json context = gyre::text::user_message_context("Grüße 👋");
  if (end != std::string_view::npos) {
    const std::string_view json = input.substr(end + 1);
    ChatTemplate::Json given = ChatTemplate::Json::parse(json.begin(), json.end(), nullptr, false);
    if (given.is_object()) context = std::move(given);
  }
  ChatTemplate::RenderOptions options;
  options.limits = {.steps = 100'000, .output = 1 << 20, .memory = 16 << 20, .depth = 300};
  options.now = std::tm{};
  (void)chat->render(context, options).ok();
  return 0;
}
