// gyre generate: a prompt, a streamed answer.

#include <cstdio>
#include <ctime>

#include "apps/commands.h"
#include "apps/common.h"
#include "engine/generate.h"
#include "text/chat_template.h"

namespace gyre::apps {
namespace {

struct GenerateFlags {
  ModelFlags model;
  std::string prompt, file, order;
  bool raw = false, ignore_eos = false;
  int64_t count = 256, chunk = 512, context = 0, top_k = 40, penalty_last = 64;
  double temperature = 0.8, top_p = 0.95, min_p = 0.05, typical = 1.0, top_n_sigma = 0.0;
  double repetition = 1.0, presence = 0.0, frequency = 0.0, xtc_probability = 0.0,
         xtc_threshold = 0.1, dry_multiplier = 0.0;
  std::optional<uint64_t> seed;
};

Flags make_flags(GenerateFlags& f) {
  Flags flags("generate");
  f.model.add_to(flags);
  flags.text("-p,--prompt", &f.prompt, "the prompt")
      .text("-f,--file", &f.file, "read the prompt from a file")
      .integer("-n,--tokens", &f.count, 0, 1 << 30, "most new tokens (256)")
      .toggle("--raw", &f.raw, "send the prompt as it is, without the model's chat format")
      .toggle("--ignore-eos", &f.ignore_eos, "go on behind the end token")
      .integer("-c,--ctx", &f.context, 1, 1 << 30, "positions of the context (the model's)")
      .integer("--chunk", &f.chunk, 1, 65536, "prompt tokens of one step (512)")
      .real("--temp", &f.temperature, 0.0, 1e4, "temperature; 0 = greedy (0.8)")
      .integer("--top-k", &f.top_k, 0, 1 << 30, "keep the k likeliest; 0 = all (40)")
      .real("--top-p", &f.top_p, 0.0, 1.0, "keep this share of probability (0.95)")
      .real("--min-p", &f.min_p, 0.0, 1.0, "drop what is below this share of the best (0.05)")
      .real("--typical", &f.typical, 0.0, 1.0, "locally typical share (1 = off)")
      .real("--top-n-sigma", &f.top_n_sigma, 0.0, 1e4, "keep within n deviations (off)")
      .real("--xtc-probability", &f.xtc_probability, 0.0, 1.0, "exclude top choices (0)")
      .real("--xtc-threshold", &f.xtc_threshold, 0.0, 1.0, "threshold of a top choice (0.1)")
      .real("--dry-multiplier", &f.dry_multiplier, 0.0, 1e4, "DRY repetition penalty (0)")
      .real("--repeat-penalty", &f.repetition, 1e-3, 1e3, "repetition penalty (1 = off)")
      .real("--presence-penalty", &f.presence, -1e3, 1e3, "presence penalty (0)")
      .real("--frequency-penalty", &f.frequency, -1e3, 1e3, "frequency penalty (0)")
      .integer("--repeat-last-n", &f.penalty_last, -1, 1 << 30, "tokens that penalties read (64)")
      .text("--samplers", &f.order, "order of the sampling steps, separated by ;")
      .optional_integer("--seed", &f.seed, "seed of the draws (random, and reported)");
  return flags;
}

Result<sampling::SamplerParams> sampler_params(const GenerateFlags& f) {
  sampling::SamplerParams params;
  params.temperature = static_cast<float>(f.temperature);
  params.top_k = static_cast<int>(f.top_k);
  params.top_p = static_cast<float>(f.top_p);
  params.min_p = static_cast<float>(f.min_p);
  params.typical_p = static_cast<float>(f.typical);
  params.top_n_sigma = static_cast<float>(f.top_n_sigma);
  params.xtc_probability = static_cast<float>(f.xtc_probability);
  params.xtc_threshold = static_cast<float>(f.xtc_threshold);
  params.dry_multiplier = static_cast<float>(f.dry_multiplier);
  params.repetition_penalty = static_cast<float>(f.repetition);
  params.presence_penalty = static_cast<float>(f.presence);
  params.frequency_penalty = static_cast<float>(f.frequency);
  params.penalty_last_n = static_cast<int>(f.penalty_last);
  params.seed = f.seed;
  if (!f.order.empty()) {
    GYRE_ASSIGN(params.order, sampling::parse_order(f.order));
  }
  return params;
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
          {"seed", out.seed},
          {"timings",
           {{"load_ms", loaded.load_ms()},
            {"prefill_tokens_per_s", out.prefill_tokens_per_s},
            {"decode_tokens_per_s", out.decode_tokens_per_s},
            {"first_token_ms", out.first_token_ms}}}};
}

}  // namespace

Result<int> run_generate(const Arguments& arguments) {
  GenerateFlags f;
  Flags flags = make_flags(f);
  GYRE_TRY(flags.parse(arguments));
  if (flags.wants_help()) return std::fputs(flags.help().c_str(), stdout), 0;
  engine::GenerateSettings settings;
  GYRE_ASSIGN(settings.sampler, sampler_params(f));
  GYRE_TRY(sampling::validate(settings.sampler, size_t{1} << 23));
  GYRE_ASSIGN(const std::unique_ptr<engine::Loaded> loaded, load(f.model));
  GYRE_ASSIGN(const std::string prompt, prompt_text(f, *loaded));
  const std::vector<int32_t> ids = loaded->tokenizer().encode(prompt);

  engine::RunnerSettings runner_settings;
  runner_settings.context = static_cast<uint32_t>(f.context);
  runner_settings.max_tokens = static_cast<uint32_t>(
      std::min<size_t>(static_cast<size_t>(f.chunk), std::max<size_t>(ids.size(), 1)));
  GYRE_ASSIGN(const std::unique_ptr<engine::Runner> runner,
              engine::Runner::make(*loaded, runner_settings));
  settings.max_new_tokens = static_cast<uint32_t>(f.count);
  settings.chunk = static_cast<uint32_t>(f.chunk);
  settings.ignore_eos = f.ignore_eos;
  Progress bar("reading the prompt");
  settings.on_prefill = [&](uint32_t done, uint32_t total) { bar.show(done, total); };
  if (!f.model.json) {
    settings.on_token = [](int32_t, const std::string& text) {
      std::fwrite(text.data(), 1, text.size(), stdout);
      return std::fflush(stdout) == 0;  // a closed pipe ends the answer
    };
  }
  GYRE_ASSIGN(const engine::Generation out, engine::generate(*runner, ids, settings));
  if (f.model.json) {
    print_json(to_json(f, *loaded, ids, out));
    return 0;
  }
  std::printf("\n");
  std::fprintf(
      stderr,
      "[%s, %d threads, %s] load %.0f ms, prompt %zu tokens at %.0f/s, answer %zu tokens at "
      "%.1f/s (%s), seed %llu\n",
      std::string(kernels::isa_name(loaded->backend().isa)).c_str(), loaded->pool().size(),
      f.model.kv.c_str(), loaded->load_ms(), ids.size(), out.prefill_tokens_per_s, out.ids.size(),
      out.decode_tokens_per_s, out.finish_reason.c_str(),
      static_cast<unsigned long long>(out.seed));
  return 0;
}

}  // namespace gyre::apps
