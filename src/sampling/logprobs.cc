#include "sampling/logprobs.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/fp_env.h"
#include "numerics/rope_math.h"
#include "numerics/softmax_row.h"

namespace gyre::sampling {

Error non_finite_logit(std::span<const float> logits) {
  const auto bad =
      std::find_if(logits.begin(), logits.end(), [](float l) { return !std::isfinite(l); });
  const std::string id = std::to_string(bad - logits.begin());
  return fail(ErrorCode::non_finite, "logit of id " + id,
              bad == logits.end() ? "?"
              : std::isnan(*bad)  ? "nan"
              : *bad > 0          ? "inf"
                                  : "-inf",
              "a finite number");
}

Result<LogprobRow> LogprobRow::make(std::span<const float> logits) {
  const FloatEnvironment environment;
  if (logits.empty() || logits.size() > numerics::kMaxSoftmaxRow)
    return fail(ErrorCode::usage, "row of logits", std::to_string(logits.size()),
                "1 to " + std::to_string(numerics::kMaxSoftmaxRow));
  const numerics::RowLimits limits = numerics::row_limits(logits.data(), logits.size());
  if (!limits.finite) return non_finite_logit(logits);
  const uint64_t total = numerics::softmax_weight_sum(logits.data(), logits.size(), limits.maximum);
  LogprobRow row;
  row.logits_ = logits;
  row.shift_ = limits.maximum;
  row.log_sum_ = numerics::log_own(static_cast<double>(total) * 0x1p-40);
  return row;
}

float LogprobRow::of(int32_t id) const {
  return static_cast<float>((logits_[static_cast<size_t>(id)] - shift_) - log_sum_);
}

void LogprobRow::best(std::span<TokenLogprob> out) const {
  if (out.empty()) return;
  // A heap of the best so far, worst on top; logprob holds the logit meanwhile.
  const auto before = [](const TokenLogprob& a, const TokenLogprob& b) {
    return a.logprob != b.logprob ? a.logprob > b.logprob : a.id < b.id;
  };
  for (size_t i = 0; i < logits_.size(); ++i) {
    const TokenLogprob token{static_cast<int32_t>(i), logits_[i]};
    if (i < out.size()) {
      out[i] = token;
      if (i + 1 == out.size()) std::make_heap(out.begin(), out.end(), before);
    } else if (before(token, out.front())) {
      std::pop_heap(out.begin(), out.end(), before);
      out.back() = token;
      std::push_heap(out.begin(), out.end(), before);
    }
  }
  std::sort(out.begin(), out.end(), before);
  for (TokenLogprob& token : out) token.logprob = of(token.id);
}

}  // namespace gyre::sampling
