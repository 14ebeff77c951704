// gyre score: teacher forcing, with the digest of every logit's bits; or two KV schemes beside each
// other.

#include <cstdio>
#include <fstream>

#include "apps/commands.h"
#include "apps/common.h"
#include "engine/compare.h"
#include "engine/score.h"

namespace gyre::apps {
namespace {

struct ScoreFlags {
  ModelFlags model;
  std::string text, file, ids, logits, logit_rows, against;
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

Json distance_json(const engine::SchemeDistance& d) {
  return {{"from", d.from},
          {"to", d.to},
          {"perplexity", d.perplexity},
          {"against_perplexity", d.against_perplexity},
          {"kl", d.kl},
          {"same_top", d.same_top}};
}

// --against: what the scheme costs beside another one.
Result<int> compare(const ScoreFlags& f, engine::Loaded& loaded, const std::vector<int32_t>& ids,
                    const kv::KvScheme& scheme) {
  GYRE_ASSIGN(const kv::KvScheme against, f.model.scheme_of("--against", f.against));
  engine::RunnerSettings runner_settings;
  runner_settings.context = static_cast<uint32_t>(f.context);
  runner_settings.scheme = scheme;
  runner_settings.max_rows = 2;
  runner_settings.max_tokens =
      2 * static_cast<uint32_t>(
              std::max<size_t>(8, std::min<size_t>(ids.size(), static_cast<size_t>(f.chunk))));
  GYRE_ASSIGN(const std::unique_ptr<engine::Runner> runner,
              engine::Runner::make(loaded, runner_settings));
  Progress bar("comparing");
  engine::CompareSettings settings;
  settings.chunk = static_cast<uint32_t>(f.chunk);
  settings.progress = [&](uint32_t done, uint32_t total) { bar.show(done, total); };
  const double start = engine::now_seconds();
  GYRE_ASSIGN(const engine::SchemeComparison out,
              engine::compare_schemes(*runner, ids, scheme, against, settings));
  if (f.model.json) {
    Json depths = Json::array();
    for (const engine::SchemeDistance& depth : out.depths) depths.push_back(distance_json(depth));
    Json json = {{"model", f.model.model},
                 {"scheme", scheme.cache_key()},
                 {"against", against.cache_key()},
                 {"tokens", ids.size()}};
    json.update(distance_json(out.all));
    json["depths"] = depths;
    json["seconds"] = engine::now_seconds() - start;
    print_json(json);
    return 0;
  }
  std::printf("%s against %s\n%13s  %10s  %10s  %9s  %s\n", scheme.cache_key().c_str(),
              against.cache_key().c_str(), "positions", "perplexity", "against", "kl", "same top");
  const auto show = [](const engine::SchemeDistance& d) {
    std::printf("%6u -%6u  %10.4f  %10.4f  %9.6f  %6.2f %%\n", d.from, d.to, d.perplexity,
                d.against_perplexity, d.kl, d.same_top * 100);
  };
  for (const engine::SchemeDistance& depth : out.depths) show(depth);
  show(out.all);
  return 0;
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
      .text("--against", &f.against, "a KV scheme: perplexity and divergence of --kv beside it")
      .text("--logits", &f.logits, "write the logits to a file: f32, [position][vocabulary]")
      .text("--logit-rows", &f.logit_rows, "positions a:b of --logits")
      .toggle("--oracle", &f.model.oracle,
              "f32 activations, weights and KV (slow; for comparisons)");
  GYRE_TRY(flags.parse(arguments));
  if (flags.wants_help()) return std::fputs(flags.help().c_str(), stdout), 0;
  if (!f.against.empty() && !f.logits.empty())
    return fail(ErrorCode::usage, "--logits", f.logits, "nothing beside --against");
  engine::RunnerSettings runner_settings;
  GYRE_ASSIGN(runner_settings.scheme, f.model.scheme());
  if (!f.against.empty()) GYRE_TRY(f.model.scheme_of("--against", f.against));
  GYRE_ASSIGN(const std::unique_ptr<engine::Loaded> loaded, load(f.model));
  GYRE_ASSIGN(const std::vector<int32_t> ids, input_ids(f, flags, *loaded));
  if (!f.against.empty()) return compare(f, *loaded, ids, runner_settings.scheme);

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
                {"scheme", runner->scheme().cache_key()},
                {"digest", score.digest},
                {"tokens", ids.size()},
                {"seconds", seconds}});
  } else {
    std::printf("tokens %zu\nperplexity %.4f\nscheme %s\ndigest %s\n", ids.size(), score.perplexity,
                runner->scheme().cache_key().c_str(), score.digest.c_str());
  }
  return 0;
}

}  // namespace gyre::apps
