// Log-probabilities of the model's own distribution, before any sampling step.
//   W = sum of round_half_even(exp(l - l_max) * 2^40), exact in any order
//   logprob = float((l - l_max) - log(W * 2^-40)), difference and logarithm in double
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"

namespace gyre::sampling {

struct TokenLogprob {
  int32_t id = 0;
  float logprob = 0.0f;
};

// One row of logits, read for its logprobs; keeps a view of the row.
class LogprobRow {
 public:
  // Fails with non_finite, or usage for an empty or too long row.
  static Result<LogprobRow> make(std::span<const float> logits);
  float of(int32_t id) const;  // id within the row
  // The out.size() most probable, in rank order; out.size() <= row.
  void best(std::span<TokenLogprob> out) const;

 private:
  std::span<const float> logits_;
  double shift_ = 0.0;  // l_max
  double log_sum_ = 0.0;
};

// Names the first NaN or infinity of a row.
Error non_finite_logit(std::span<const float> logits);

}  // namespace gyre::sampling
