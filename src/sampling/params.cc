#include "sampling/params.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "numerics/softmax_row.h"

namespace gyre::sampling {
namespace {

constexpr std::array<std::string_view, 10> kNames = {"bias",  "penalties",  "dry",   "top_n_sigma",
                                                     "top_k", "typical",    "top_p", "min_p",
                                                     "xtc",   "temperature"};

std::string all_names() {
  std::string out;
  for (std::string_view name : kNames) out.append(out.empty() ? "" : ";").append(name);
  return out;
}

std::string step_text(std::string_view name, const char* tail) {
  return std::string("step '").append(name).append("'").append(tail);
}

std::string text_of(float x) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%g", static_cast<double>(x));
  return buffer;
}

// NaN fails every comparison, so the checks are written as what must hold.
Status check(const char* field, float value, bool good, const char* expected) {
  if (good && std::isfinite(value)) return {};
  return fail(ErrorCode::usage, field, text_of(value), expected);
}

Status check(const char* field, int64_t value, bool good, const char* expected) {
  if (good) return {};
  return fail(ErrorCode::usage, field, std::to_string(value), expected);
}

Status check_probability(const char* field, float p) {
  return check(field, p, p >= 0.0f && p <= 1.0f, "0 to 1");
}

Status check_id(const std::string& field, int32_t id, size_t vocab) {
  if (id >= 0 && static_cast<size_t>(id) < vocab) return {};
  return fail(ErrorCode::usage, field, std::to_string(id),
              "a token id below " + std::to_string(vocab));
}

Status check_filters(const SamplerParams& p) {
  GYRE_TRY(check("temperature", p.temperature, p.temperature >= 0.0f, "0 (greedy) or more"));
  GYRE_TRY(check("top_k", int64_t{p.top_k}, p.top_k >= 0, "0 (off) or more"));
  GYRE_TRY(check_probability("top_p", p.top_p));
  GYRE_TRY(check_probability("min_p", p.min_p));
  GYRE_TRY(check_probability("typical_p", p.typical_p));
  GYRE_TRY(check("top_n_sigma", p.top_n_sigma, p.top_n_sigma >= 0.0f, "0 (off) or more"));
  GYRE_TRY(check_probability("xtc_probability", p.xtc_probability));
  return check_probability("xtc_threshold", p.xtc_threshold);
}

Status check_penalties(const SamplerParams& p) {
  GYRE_TRY(check("repetition_penalty", p.repetition_penalty, p.repetition_penalty > 0.0f,
                 "a finite number above 0"));
  GYRE_TRY(check("presence_penalty", p.presence_penalty, true, "a finite number"));
  GYRE_TRY(check("frequency_penalty", p.frequency_penalty, true, "a finite number"));
  GYRE_TRY(check("penalty_last_n", int64_t{p.penalty_last_n}, p.penalty_last_n >= -1,
                 "-1 (all) or more"));
  GYRE_TRY(check("dry_multiplier", p.dry_multiplier, p.dry_multiplier >= 0.0f, "0 (off) or more"));
  GYRE_TRY(check("dry_base", p.dry_base, p.dry_base >= 1.0f, "a finite number, 1 or more"));
  GYRE_TRY(check("dry_allowed_length", int64_t{p.dry_allowed_length}, p.dry_allowed_length >= 1,
                 "1 or more"));
  return check("dry_penalty_last_n", int64_t{p.dry_penalty_last_n}, p.dry_penalty_last_n >= -1,
               "-1 (all) or more");
}

Status check_ids(const SamplerParams& p, size_t vocab) {
  std::vector<int32_t> ids;
  for (const auto& [id, value] : p.logit_bias) {
    GYRE_TRY(check_id("logit_bias", id, vocab));
    GYRE_TRY(
        check(("logit_bias of id " + std::to_string(id)).c_str(), value, true, "a finite number"));
    ids.push_back(id);
  }
  std::sort(ids.begin(), ids.end());
  const auto twice = std::adjacent_find(ids.begin(), ids.end());
  if (twice != ids.end())
    return fail(ErrorCode::usage, "logit_bias", "id " + std::to_string(*twice) + " twice",
                "each id once");
  for (const std::vector<int32_t>& breaker : p.dry_sequence_breakers) {
    if (breaker.empty())
      return fail(ErrorCode::usage, "dry_sequence_breakers", "an empty sequence",
                  "one token id or more in each");
    for (int32_t id : breaker) GYRE_TRY(check_id("dry_sequence_breakers", id, vocab));
  }
  return {};
}

}  // namespace

std::string_view step_name(Step step) {
  return kNames[static_cast<size_t>(step)];
}

std::vector<Step> default_order() {
  std::vector<Step> order;
  for (size_t i = 0; i < kNames.size(); ++i) order.push_back(static_cast<Step>(i));
  return order;
}

Result<std::vector<Step>> parse_order(std::string_view text) {
  std::vector<Step> order;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(';', begin), text.size());
    const std::string_view name = text.substr(begin, end - begin);
    const auto found = std::find(kNames.begin(), kNames.end(), name);
    if (found == kNames.end())
      return fail(ErrorCode::usage, "order", step_text(name, ""), all_names());
    const auto step = static_cast<Step>(found - kNames.begin());
    if (std::find(order.begin(), order.end(), step) != order.end())
      return fail(ErrorCode::usage, "order", step_text(name, " twice"), "each step at most once");
    order.push_back(step);
    begin = end + 1;
  }
  return order;
}

Status validate(const SamplerParams& params, size_t vocab) {
  if (vocab == 0 || vocab > numerics::kMaxSoftmaxRow)
    return fail(ErrorCode::usage, "vocabulary", std::to_string(vocab),
                "1 to " + std::to_string(numerics::kMaxSoftmaxRow));
  GYRE_TRY(check_filters(params));
  GYRE_TRY(check_penalties(params));
  GYRE_TRY(check_ids(params, vocab));
  GYRE_TRY(check("logprobs", int64_t{params.logprobs},
                 params.logprobs >= -1 && params.logprobs <= static_cast<int64_t>(vocab),
                 "-1 (none) to the size of the vocabulary"));
  uint32_t seen = 0;
  for (Step step : params.order) {
    const uint32_t bit = uint32_t{1} << static_cast<uint32_t>(step);
    if (static_cast<size_t>(step) >= kNames.size() || (seen & bit) != 0)
      return fail(ErrorCode::usage, "order", "a step twice or unknown", "each step at most once");
    seen |= bit;
  }
  return {};
}

}  // namespace gyre::sampling
