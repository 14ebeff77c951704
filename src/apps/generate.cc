// gyre generate: a prompt, a streamed answer.

#include <cstdio>
#include <ctime>

#include "apps/commands.h"
#include "apps/common.h"
#include "apps/sampling_flags.h"
#include "engine/generate.h"
#include "engine/saved.h"
#include "text/chat_template.h"

namespace gyre::apps {
namespace {

struct GenerateFlags {
  ModelFlags model;
  SamplingFlags sampling;
  std::string prompt, file, save, load;
  bool raw = false;
  int64_t count = 256, chunk = 512, context = 0;
};

Flags make_flags(GenerateFlags& f) {
  Flags flags("generate");
  f.model.add_to(flags);
  flags.text("-p,--prompt", &f.prompt, "the prompt")
      .text("-f,--file", &f.file, "read the prompt from a file")
      .integer("-n,--tokens", &f.count, 0, 1 << 30, "most new tokens (256)")
      .toggle("--raw", &f.raw, "send the prompt as it is, without the model's chat format")
      .integer("-c,--ctx", &f.context, 1, 1 << 30, "positions of the context (the model's)")
      .integer("--chunk", &f.chunk, 1, 65536, "prompt tokens of one step (512)")
      .text("--save-state", &f.save, "write the row to a file afterwards")
      .text("--load-state", &f.load,
            "go on from such a file, with its settings where none are given");
  f.sampling.add_to(flags);
  return flags;
}

// The prompt as one user message, by the model's own template.
Result<std::string> chat_prompt(const std::string& source, const std::string& prompt,
                                const text::Tokenizer& tokenizer) {
  const text::TokenId bos = tokenizer.bos();
  const std::string bos_text(bos >= 0 ? tokenizer.raw(bos) : "");
  const std::string eos_text(tokenizer.eos() >= 0 ? tokenizer.raw(tokenizer.eos()) : "");
  GYRE_ASSIGN(const text::ChatTemplate chat,
              text::ChatTemplate::parse(source, {bos_text, eos_text}));
  text::ChatTemplate::RenderOptions options;
  const std::time_t now = std::time(nullptr);
  if (const std::tm* local = std::localtime(&now)) options.now = *local;
  GYRE_ASSIGN(std::string out, chat.render(text::user_message_context(prompt), options));
  // One BOS: the tokenizer adds its own where the model's metadata says so.
  const std::vector<text::TokenId> added = tokenizer.encode("");
  if (bos >= 0 && !added.empty() && added[0] == bos && out.starts_with(bos_text))
    out.erase(0, bos_text.size());
  return out;
}

Result<std::string> prompt_text(GenerateFlags& f, engine::Loaded& loaded) {
  if (!f.file.empty()) {
    GYRE_ASSIGN(f.prompt, read_text_file(f.file));
  }
  if (f.prompt.empty()) return fail(ErrorCode::usage, "--prompt", "empty", "some text");
  if (f.raw) return f.prompt;
  GYRE_ASSIGN(const std::string chat_template,
              loaded.source().get_string_or("tokenizer.chat_template", ""));
  if (chat_template.empty()) return f.prompt;  // a base model: it continues the text
  return chat_prompt(chat_template, f.prompt, loaded.tokenizer());
}

Json to_json(const GenerateFlags& f, const engine::Loaded& loaded,
             const std::vector<int32_t>& prompt, const engine::Generation& out) {
  return {{"model", f.model.model},
          {"prompt_ids", prompt},
          {"ids", out.ids},
          {"text", out.text},
          {"finish_reason", out.finish_reason},
          {"scheme", f.model.kv},
          {"seed", out.seed},
          {"timings",
           {{"load_ms", loaded.load_ms()},
            {"prefill_tokens_per_s", out.prefill_tokens_per_s},
            {"decode_tokens_per_s", out.decode_tokens_per_s},
            {"first_token_ms", out.first_token_ms}}}};
}

// A saved row's settings: those of the run that wrote it, then those of this command line.
Result<std::optional<kv::StateFile>> open_state(GenerateFlags& f, Flags& flags,
                                                const Arguments& arguments) {
  std::optional<kv::StateFile> out;
  if (f.load.empty()) return out;
  for (const char* flag : {"--prompt", "--file"}) {
    if (flags.was_given(flag))
      return fail(ErrorCode::usage, flag, "given", "nothing beside --load-state");
  }
  GYRE_ASSIGN(out, kv::StateFile::open(f.load));
  GYRE_TRY(SamplingFlags::recall(out->note(), flags));
  GYRE_TRY(flags.parse(arguments));
  const std::string& scheme = out->label().scheme;
  if (!flags.was_given("--kv")) f.model.kv = scheme.substr(0, scheme.find('|'));
  return out;
}

}  // namespace

Result<int> run_generate(const Arguments& arguments) {
  GenerateFlags f;
  Flags flags = make_flags(f);
  GYRE_TRY(flags.parse(arguments));
  if (flags.wants_help()) return std::fputs(flags.help().c_str(), stdout), 0;
  GYRE_ASSIGN(const std::optional<kv::StateFile> state, open_state(f, flags, arguments));
  engine::GenerateSettings settings;
  GYRE_ASSIGN(settings.sampler, f.sampling.params());
  engine::RunnerSettings runner_settings;
  GYRE_ASSIGN(runner_settings.scheme, f.model.scheme());
  GYRE_ASSIGN(const std::unique_ptr<engine::Loaded> loaded, load(f.model));
  std::vector<int32_t> ids;
  if (state) {
    ids.assign(state->tokens().begin(), state->tokens().end());
  } else {
    GYRE_ASSIGN(const std::string prompt, prompt_text(f, *loaded));
    ids = loaded->tokenizer().encode(prompt);
  }

  runner_settings.context = static_cast<uint32_t>(f.context);
  runner_settings.max_tokens = static_cast<uint32_t>(
      std::min<size_t>(static_cast<size_t>(f.chunk), std::max<size_t>(ids.size(), 1)));
  GYRE_ASSIGN(const std::unique_ptr<engine::Runner> runner,
              engine::Runner::make(*loaded, runner_settings));
  GYRE_ASSIGN(kv::Sequence row,
              state ? engine::load_row(*runner, runner->scheme(), *state) : runner->open_row());
  const std::vector<int32_t> prompt_ids = ids;
  settings.max_new_tokens = static_cast<uint32_t>(f.count);
  settings.chunk = static_cast<uint32_t>(f.chunk);
  settings.ignore_eos = f.sampling.ignore_eos;
  Progress bar("reading the prompt");
  settings.on_prefill = [&](uint32_t done, uint32_t total) { bar.show(done, total); };
  if (!f.model.json) {
    settings.on_token = [](int32_t, const std::string& text) {
      std::fwrite(text.data(), 1, text.size(), stdout);
      return std::fflush(stdout) == 0;  // a closed pipe ends the answer
    };
  }
  GYRE_ASSIGN(const engine::Generation out, engine::resume(*runner, row, ids, settings));
  if (!f.save.empty())
    GYRE_TRY(
        engine::save_row(*runner, row, runner->scheme(), ids, f.sampling.note(out.seed), f.save));
  if (f.model.json) {
    print_json(to_json(f, *loaded, prompt_ids, out));
    return 0;
  }
  std::printf("\n");
  std::fprintf(
      stderr,
      "[%s, %d threads, %s] load %.0f ms, prompt %zu tokens at %.0f/s, answer %zu tokens at "
      "%.1f/s (%s), seed %llu\n",
      std::string(kernels::isa_name(loaded->backend().isa)).c_str(), loaded->pool().size(),
      f.model.kv.c_str(), loaded->load_ms(), prompt_ids.size(), out.prefill_tokens_per_s,
      out.ids.size(), out.decode_tokens_per_s, out.finish_reason.c_str(),
      static_cast<unsigned long long>(out.seed));
  return 0;
}

}  // namespace gyre::apps
