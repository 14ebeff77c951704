#include "engine/generate.h"

#include <algorithm>

#include "os/random.h"
#include "text/detokenizer.h"

namespace gyre::engine {
namespace {

constexpr size_t kTextContext =
    16;  // ids before the new ones that may share a code point with them

// The ids that the row lacks.
Status prefill(Runner& runner, kv::Sequence& row, std::span<const TokenId> ids,
               const GenerateSettings& settings) {
  const uint32_t chunk = std::clamp(settings.chunk, 1u, runner.max_tokens());
  const uint32_t before = row.length();
  while (row.length() < ids.size()) {
    const size_t done = row.length(), n = std::min<size_t>(chunk, ids.size() - done);
    const RowTokens tokens{&row, ids.subspan(done, n)};
    GYRE_TRY(runner.step({&tokens, 1}));
    if (!runner.row_is_finite(0))
      return fail(ErrorCode::non_finite, "prompt position", std::to_string(done), "finite values");
    if (settings.on_prefill)
      settings.on_prefill(row.length() - before, static_cast<uint32_t>(ids.size()) - before);
  }
  return {};
}

// Of a text that goes on: what came before is known to the reader.
text::Detokenizer detokenizer_behind(const text::Tokenizer& tokenizer,
                                     std::span<const TokenId> before) {
  text::Detokenizer out(tokenizer, false, !before.empty());
  for (const TokenId id : before.last(std::min(before.size(), kTextContext))) (void)out.push(id);
  return out;
}

}  // namespace

Result<Generation> resume(Runner& runner, kv::Sequence& row, std::vector<TokenId>& ids,
                          const GenerateSettings& settings) {
  if (ids.empty()) return fail(ErrorCode::usage, "prompt", "empty", "at least one token");
  const bool is_full = row.length() == runner.context();
  if (!is_full && ids.size() >= runner.context() + (row.length() == 0 ? 0u : 1u))
    return fail(ErrorCode::context_overflow, "prompt tokens", std::to_string(ids.size()),
                "at most " + std::to_string(runner.context() - 1));
  if (row.length() > ids.size())
    return fail(ErrorCode::internal, "positions of a row", std::to_string(row.length()),
                "at most the " + std::to_string(ids.size()) + " ids");
  const text::Tokenizer& tokenizer = runner.loaded().tokenizer();
  GYRE_ASSIGN(const sampling::Sampler sampler,
              sampling::Sampler::make(settings.sampler, runner.vocabulary(), os::random_bits()));
  GYRE_ASSIGN(sampling::SampleWorkspace workspace,
              sampling::SampleWorkspace::make(runner.vocabulary()));
  text::Detokenizer detokenizer = detokenizer_behind(
      tokenizer, row.length() == 0 ? std::span<const TokenId>() : std::span<const TokenId>(ids));
  Generation out;
  out.seed = sampler.seed();
  if (is_full) out.finish_reason = "context";
  if (!is_full && row.length() == ids.size()) out.finish_reason = "stop";
  const double start = now_seconds();
  const size_t prompt = is_full ? 0 : ids.size() - row.length();
  // Without a draw the last id stays for the call that draws.
  const size_t computed = settings.max_new_tokens == 0 ? ids.size() - 1 : ids.size();
  if (!is_full) GYRE_TRY(prefill(runner, row, std::span(ids).first(computed), settings));
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
    const sampling::SampleInput input{runner.last_logits(0), ids, ids.size(), 0, {}};
    GYRE_ASSIGN(const sampling::Draw draw, sampler.sample(input, workspace));
    if (first == 0.0) first = now_seconds();
    if (tokenizer.ends_generation(draw.token) && !settings.ignore_eos) {
      out.finish_reason = "stop";
      break;
    }
    out.ids.push_back(draw.token);
    ids.push_back(draw.token);
    const std::string text = detokenizer.push(draw.token);
    out.text += text;
    if (settings.on_token && !settings.on_token(draw.token, text)) {
      out.finish_reason = "cancelled";
    } else if (row.length() == runner.context()) {
      out.finish_reason = "context";
    } else if (out.ids.size() < settings.max_new_tokens) {
      const RowTokens next{&row, {&ids.back(), 1}};
      GYRE_TRY(runner.step({&next, 1}));
    }
  }
  const double end = now_seconds();
  const std::string rest = detokenizer.finish();
  out.text += rest;
  if (!rest.empty() && settings.on_token) settings.on_token(-1, rest);
  if (first == 0.0) first = end;
  out.first_token_ms = (first - start) * 1e3;
  if (prompt > 0) out.prefill_tokens_per_s = static_cast<double>(prompt) / (first - start);
  if (out.ids.size() > 1)
    out.decode_tokens_per_s = static_cast<double>(out.ids.size() - 1) / (end - first);
  return out;
}

Result<Generation> generate(Runner& runner, std::span<const TokenId> prompt,
                            const GenerateSettings& settings) {
  GYRE_ASSIGN(kv::Sequence row, runner.open_row());
  std::vector<TokenId> ids(prompt.begin(), prompt.end());
  return resume(runner, row, ids, settings);
}

}  // namespace gyre::engine
