// One prompt to text: prefill in chunks, then token by token.
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

}  // namespace gyre::engine
