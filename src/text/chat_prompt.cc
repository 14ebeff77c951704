#include "text/chat_prompt.h"

namespace gyre::text {
namespace {

// The system message that some templates add by themselves: the literal text between the two marks
// of a quoted string. "" when there is none.
std::string default_system(std::string_view chat_template) {
  constexpr std::string_view kBegin = "<|im_start|>system\\n", kEnd = "<|im_end|>";
  const size_t begin = chat_template.find(kBegin);
  if (begin == std::string_view::npos) return {};
  const size_t text = begin + kBegin.size(), end = chat_template.find(kEnd, text);
  if (end == std::string_view::npos) return {};
  const std::string_view found = chat_template.substr(text, end - text);
  // A quote means that the template goes on with an expression there.
  if (found.find('\'') != std::string_view::npos || found.find('"') != std::string_view::npos)
    return {};
  return std::string(found);
}

}  // namespace

Result<std::string> chat_prompt(std::string_view chat_template, std::string_view user) {
  const std::string message(user);
  auto has = [&](std::string_view mark) {
    return chat_template.find(mark) != std::string_view::npos;
  };
  if (has("<|im_start|>")) {
    std::string out;
    if (const std::string system = default_system(chat_template); !system.empty())
      out = "<|im_start|>system\n" + system + "<|im_end|>\n";
    return out + "<|im_start|>user\n" + message + "<|im_end|>\n<|im_start|>assistant\n";
  }
  if (has("<start_of_turn>"))
    return "<start_of_turn>user\n" + message + "<end_of_turn>\n<start_of_turn>model\n";
  if (has("<|start_header_id|>"))
    return "<|start_header_id|>user<|end_header_id|>\n\n" + message +
           "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n";
  return fail(ErrorCode::unsupported, "tokenizer.chat_template", chat_template.substr(0, 60),
              "ChatML, Gemma or Llama 3 (--raw sends the prompt as it is)");
}

}  // namespace gyre::text
