// Which tokens end a generation. GGUF files name few of them, so well-known texts count too; the
// lists are those of the oracle, because users expect the same stops.
#include <algorithm>
#include <cctype>

#include "text/vocab.h"

namespace gyre::text {

bool Vocab::ends_generation(TokenId id) const {
  return std::binary_search(ends_.begin(), ends_.end(), id);
}

void Vocab::add_end(TokenId id) {
  if (id < 0) return;
  const auto place = std::lower_bound(ends_.begin(), ends_.end(), id);
  if (place == ends_.end() || *place != id) ends_.insert(place, id);
}

// The id the file gives, else the first of these texts that is a token, which becomes control.
TokenId Vocab::first_of(std::initializer_list<std::string_view> names, TokenId known) {
  if (known >= 0) return known;
  for (std::string_view name : names) {
    const TokenId id = find(name);
    if (id < 0) continue;
    force_control(id);
    return id;
  }
  return -1;
}

void Vocab::find_ends(TokenId eot, TokenId eom, TokenId pad, TokenId repository,
                      TokenId separator) {
  first_of({"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>", "<PRE>", "▁<PRE>",
            "<|code_prefix|>", "<|prefix|>"},
           -1);
  first_of({"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>", "<SUF>", "▁<SUF>",
            "<|code_suffix|>", "<|suffix|>"},
           -1);
  first_of({"<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>", "<MID>", "▁<MID>",
            "<|code_middle|>", "<|middle|>"},
           -1);
  add_end(first_of({"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"}, pad));
  add_end(first_of({"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"},
                   repository));
  add_end(first_of({"<|file_sep|>"}, separator));
  for (std::string_view name : {"<|eot_id|>",
                                "<|im_end|>",
                                "<|end|>",
                                "<|return|>",
                                "<|call|>",
                                "<|flush|>",
                                "<|calls|>",
                                "<end_of_turn>",
                                "<|endoftext|>",
                                "</s>",
                                "<|eom_id|>",
                                "<EOT>",
                                "_<EOT>",
                                "[EOT]",
                                "[EOS]",
                                "<|end_of_text|>",
                                "<end_of_utterance>",
                                "<eos>",
                                "<turn|>",
                                "<|tool_response>",
                                "<｜end▁of▁sentence｜>",
                                "[e~["}) {
    const TokenId id = find(name);
    if (id < 0) continue;
    force_control(id);
    add_end(id);
  }
  add_end(eos_);
  add_end(eot);
  add_end(eom);
  correct_ends();
}

// Vocabularies in which one of the well-known texts means something else.
void Vocab::correct_ends() {
  for (std::string_view name : {"<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"}) {
    if (const TokenId id = find(name); id >= 0) kinds_[id] = kUserDefined;
  }
  const auto ends = [&](std::string_view name) { return ends_generation(find(name)); };
  const auto remove = [&](std::string_view name, TokenKind kind) {
    const TokenId id = find(name);
    ends_.erase(std::find(ends_.begin(), ends_.end(), id));
    kinds_[id] = kind;
  };
  const bool calls = ends("<|call|>") || ends("<|calls|>");
  if (ends("<|end|>") && calls && (ends("<|return|>") || ends("<|flush|>"))) {
    remove("<|end|>", kUserDefined);
  }
  if (ends("</s>") && (ends("<|tool_response>") || ends("<|plamo:eos|>"))) remove("</s>", kNormal);
}

// Phi-3's special tokens swallow the white space after them; GGUF says so only by the model's name.
void Vocab::mark_space_swallowers(const loaders::WeightSource& source) {
  const loaders::MetaValue* value = source.meta("general.name");
  const std::string* name = value == nullptr ? nullptr : std::get_if<std::string>(value);
  if (name == nullptr) return;
  std::string lower = *name;
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (lower.find("phi-3") == std::string::npos && lower.find("phi3") == std::string::npos) return;
  for (uint8_t& kind : kinds_) {
    if (kind & (kControl | kUserDefined | kUnknown)) kind |= kSwallowsSpace;
  }
  if (const TokenId id = find("</s>"); id >= 0) kinds_[id] |= kSwallowsSpace;
  for (std::string_view plain : {"<unk>", "<s>", "<|endoftext|>"}) {
    if (const TokenId id = find(plain); id >= 0) kinds_[id] &= uint8_t(~kSwallowsSpace);
  }
}

}  // namespace gyre::text
