// gyre score: teacher forcing, with the digest of every logit's bits.

#include <cstdio>
#include <fstream>

#include "apps/commands.h"
#include "apps/common.h"
#include "engine/score.h"

namespace gyre::apps {
namespace {

struct ScoreFlags {
  ModelFlags model;
  std::string text, file, ids, logits, logit_rows;
  int64_t chunk = 512, context = 0, limit = 0;
};

Result<std::vector<int32_t>> input_ids(ScoreFlags& f, const Flags& flags, engine::Loaded& loaded) {
  const int given =
      flags.was_given("--text") + flags.was_given("--file") + flags.was_given("--ids");
  if (given != 1)
    return fail(ErrorCode::usage, "input", given == 0 ? "nothing" : "several",
                "one of --text, --file, --ids");
  std::vector<int32_t> ids;
  if (!f.ids.empty()) {
    GYRE_ASSIGN(ids, parse_ids(f.ids, loaded.model().info().vocabulary));
  } else {
    if (!f.file.empty()) {
      GYRE_ASSIGN(f.text, read_text_file(f.file));
    }
    ids = loaded.tokenizer().encode(f.text);
  }
  if (f.limit > 0 && ids.size() > static_cast<size_t>(f.limit)) ids.resize(f.limit);
  if (ids.empty()) return fail(ErrorCode::usage, "input", "empty", "at least one token");
  return ids;
}

}  // namespace

Result<int> run_score(const Arguments& arguments) {
  ScoreFlags f;
  Flags flags("score");
  f.model.add_to(flags);
  flags.text("-t,--text", &f.text, "the text")
      .text("-f,--file", &f.file, "read the text from a file")
      .text("--ids", &f.ids, "token ids, separated by commas")
      .integer("--limit", &f.limit, 1, 1 << 30, "only the first tokens")
      .integer("--chunk", &f.chunk, 1, 65536, "tokens of one step (512); bits don't depend on it")
      .integer("-c,--ctx", &f.context, 1, 1 << 30, "positions of the context (the model's)")
      .text("--logits", &f.logits, "write the logits to a file: f32, [position][vocabulary]")
      .text("--logit-rows", &f.logit_rows, "positions a:b of --logits")
      .toggle("--oracle", &f.model.oracle,
              "f32 activations, weights and KV (slow; for comparisons)");
  GYRE_TRY(flags.parse(arguments));
  if (flags.wants_help()) return std::fputs(flags.help().c_str(), stdout), 0;
  GYRE_ASSIGN(const std::unique_ptr<engine::Loaded> loaded, load(f.model));
  GYRE_ASSIGN(const std::vector<int32_t> ids, input_ids(f, flags, *loaded));

  engine::RunnerSettings runner_settings;
  runner_settings.context = static_cast<uint32_t>(f.context);
  runner_settings.max_tokens =
      static_cast<uint32_t>(std::max<size_t>(16, std::min<size_t>(ids.size(), f.chunk)));
  GYRE_ASSIGN(const std::unique_ptr<engine::Runner> runner,
              engine::Runner::make(*loaded, runner_settings));
  if (ids.size() > runner->context())
    return fail(ErrorCode::context_overflow, "input tokens", std::to_string(ids.size()),
                "at most " + std::to_string(runner->context()));
  unsigned long long from = 0, to = ids.size();
  if (!f.logit_rows.empty() &&
      (std::sscanf(f.logit_rows.c_str(), "%llu:%llu", &from, &to) != 2 || from > to))
    return fail(ErrorCode::usage, "--logit-rows", f.logit_rows, "a:b");
  std::ofstream logits;
  if (!f.logits.empty()) {
    logits.open(f.logits, std::ios::binary);
    if (!logits) return fail(ErrorCode::io, "--logits", f.logits, "a writable file");
  }
  Progress bar("scoring");
  engine::ScoreSettings settings;
  settings.chunk = static_cast<uint32_t>(f.chunk);
  settings.on_logits = [&](uint32_t position, std::span<const float> row) {
    bar.show(position, ids.size());
    if (logits.is_open() && position >= from && position < to)
      logits.write(reinterpret_cast<const char*>(row.data()),
                   static_cast<std::streamsize>(row.size_bytes()));
    return !logits.is_open() || logits.good();
  };
  const double start = engine::now_seconds();
  GYRE_ASSIGN(const engine::Score score, engine::score(*runner, ids, settings));
  const double seconds = engine::now_seconds() - start;
  if (f.model.json) {
    print_json({{"model", f.model.model},
                {"ids", ids},
                {"logprobs", score.logprobs},
                {"perplexity", score.perplexity},
                {"digest", score.digest},
                {"tokens", ids.size()},
                {"seconds", seconds}});
  } else {
    std::printf("tokens %zu\nperplexity %.4f\ndigest %s\n", ids.size(), score.perplexity,
                score.digest.c_str());
  }
  return 0;
}

}  // namespace gyre::apps
