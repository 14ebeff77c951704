// What a request may say about sampling, and its validation. docs/formats/sampling.md defines each
// step's arithmetic. Neutral values (the defaults here) switch a step off.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace gyre::sampling {

enum class Step : uint8_t {
  bias,
  penalties,
  dry,
  top_n_sigma,
  top_k,
  typical,
  top_p,
  min_p,
  xtc,
  temperature,
};

std::string_view step_name(Step step);
// The order of the contract: as listed above.
std::vector<Step> default_order();
// "penalties;top_k;temperature": names separated by ';', each at most once.
Result<std::vector<Step>> parse_order(std::string_view text);

struct SamplerParams {
  float temperature = 1.0f;  // 0 = greedy: filters and XTC do not run
  int32_t top_k = 0;         // 0 = off
  float top_p = 1.0f;        // 1 = off
  float min_p = 0.0f;        // 0 = off
  float typical_p = 1.0f;    // 1 = off
  float top_n_sigma = 0.0f;  // standard deviations; 0 = off
  float xtc_probability = 0.0f;
  float xtc_threshold = 0.1f;

  float dry_multiplier = 0.0f;  // 0 = off
  float dry_base = 1.75f;
  int32_t dry_allowed_length = 2;
  int32_t dry_penalty_last_n = -1;  // ids of history that count; -1 = all, 0 = off
  std::vector<std::vector<int32_t>> dry_sequence_breakers;  // as token ids

  float repetition_penalty = 1.0f;
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  int32_t penalty_last_n = 64;  // -1 = all, 0 = off

  std::vector<std::pair<int32_t, float>> logit_bias;  // (id, added logit), ids distinct
  std::optional<uint64_t> seed;
  int32_t logprobs = -1;  // -1 = none, 0 = the drawn token's, n = and the n best of the row
  std::vector<Step> order = default_order();  // a step left out does not run
};

// Everything in range for this vocabulary; the error names the field, its value and what fits.
Status validate(const SamplerParams& params, size_t vocab);

}  // namespace gyre::sampling
