#include "engine/generate.h"

#include <algorithm>

#include "os/random.h"
#include "text/detokenizer.h"

namespace gyre::engine {
namespace {

Status prefill(Runner& runner, kv::Sequence& row, std::span<const TokenId> prompt,
               const GenerateSettings& settings) {
  const uint32_t chunk = std::clamp(settings.chunk, 1u, runner.max_tokens());
  for (size_t done = 0; done < prompt.size();) {
    const size_t n = std::min<size_t>(chunk, prompt.size() - done);
    const RowTokens tokens{&row, prompt.subspan(done, n)};
    GYRE_TRY(runner.step({&tokens, 1}));
    if (!runner.row_is_finite(0))
      return fail(ErrorCode::non_finite, "prompt position", std::to_string(done), "finite values");
    done += n;
    if (settings.on_prefill)
      settings.on_prefill(static_cast<uint32_t>(done), static_cast<uint32_t>(prompt.size()));
  }
  return {};
}

}  // namespace

Result<Generation> generate(Runner& runner, std::span<const TokenId> prompt,
                            const GenerateSettings& settings) {
  if (prompt.empty()) return fail(ErrorCode::usage, "prompt", "empty", "at least one token");
  if (prompt.size() >= runner.context())
    return fail(ErrorCode::context_overflow, "prompt tokens", std::to_string(prompt.size()),
                "at most " + std::to_string(runner.context() - 1));
  const text::Tokenizer& tokenizer = runner.loaded().tokenizer();
  GYRE_ASSIGN(const sampling::Sampler sampler,
              sampling::Sampler::make(settings.sampler, runner.vocabulary(), os::random_bits()));
  GYRE_ASSIGN(sampling::SampleWorkspace workspace,
              sampling::SampleWorkspace::make(runner.vocabulary()));
  GYRE_ASSIGN(kv::Sequence row, runner.open_row());
  text::Detokenizer detokenizer(tokenizer);
  std::vector<TokenId> history(prompt.begin(), prompt.end());
  Generation out;
  out.seed = sampler.seed();
  const double start = now_seconds();
  GYRE_TRY(prefill(runner, row, prompt, settings));
  double first = 0.0;
  while (out.finish_reason.empty()) {
    if (out.ids.size() == settings.max_new_tokens) {
      out.finish_reason = "length";
      break;
    }
    runner.compute_last_logits();
    if (!runner.last_is_finite(0))
      return fail(ErrorCode::non_finite, "logits of position", std::to_string(row.length() - 1),
                  "finite values");
    const sampling::SampleInput input{runner.last_logits(0), history, history.size(), 0, {}};
    GYRE_ASSIGN(const sampling::Draw draw, sampler.sample(input, workspace));
    if (first == 0.0) first = now_seconds();
    if (tokenizer.ends_generation(draw.token) && !settings.ignore_eos) {
      out.finish_reason = "stop";
      break;
    }
    out.ids.push_back(draw.token);
    history.push_back(draw.token);
    const std::string text = detokenizer.push(draw.token);
    out.text += text;
    if (settings.on_token && !settings.on_token(draw.token, text)) {
      out.finish_reason = "cancelled";
    } else if (row.length() == runner.context()) {
      out.finish_reason = "context";
    } else if (out.ids.size() < settings.max_new_tokens) {
      const RowTokens next{&row, {&history.back(), 1}};
      GYRE_TRY(runner.step({&next, 1}));
    }
  }
  const double end = now_seconds();
  const std::string rest = detokenizer.finish();
  out.text += rest;
  if (!rest.empty() && settings.on_token) settings.on_token(-1, rest);
  if (first == 0.0) first = end;
  out.first_token_ms = (first - start) * 1e3;
  out.prefill_tokens_per_s = static_cast<double>(prompt.size()) / (first - start);
  if (out.ids.size() > 1)
    out.decode_tokens_per_s = static_cast<double>(out.ids.size() - 1) / (end - first);
  return out;
}

}  // namespace gyre::engine
