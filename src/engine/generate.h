// One prompt to text: prefill in chunks, then token by token; and a saved row further on.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/runner.h"
#include "sampling/sampler.h"

namespace gyre::engine {

struct GenerateSettings {
  uint32_t max_new_tokens = 256;
  uint32_t chunk = 512;
  bool ignore_eos = false;
  sampling::SamplerParams sampler;
  // Each new token with the text that became complete; returning false stops (finish "cancelled").
  std::function<bool(TokenId id, const std::string& text)> on_token;
  std::function<void(uint32_t done, uint32_t total)> on_prefill;  // prompt tokens
};

struct Generation {
  std::vector<TokenId> ids;
  std::string text;
  std::string finish_reason;  // "stop" (end token), "length", "context" or "cancelled"
  double prefill_tokens_per_s = 0.0, decode_tokens_per_s = 0.0, first_token_ms = 0.0;
  uint64_t seed = 0;
};

Result<Generation> generate(Runner& runner, std::span<const TokenId> prompt,
                            const GenerateSettings& settings);

// The same from any point of a request: `row` holds the first row.length() of `ids`, and the rest
// is computed first. Both grow, so that a later call goes on as if there had been one; draws are
// addressed by position, hence no token depends on where the calls part. A row that holds all of
// `ids` had come to its end: nothing is drawn (finish "stop" or "context").
Result<Generation> resume(Runner& runner, kv::Sequence& row, std::vector<TokenId>& ids,
                          const GenerateSettings& settings);

}  // namespace gyre::engine
