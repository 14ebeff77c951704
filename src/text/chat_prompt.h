// One user message as the prompt that a chat model expects.
//
// Reads the markers of the model's chat template; it does not run the template (a template engine
// is the server's room to come). Known shapes: ChatML, Gemma, Llama 3. Others are refused by name.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace gyre::text {

// `chat_template` is tokenizer.chat_template; the text keeps special tokens as text to be parsed.
Result<std::string> chat_prompt(std::string_view chat_template, std::string_view user);

}  // namespace gyre::text
