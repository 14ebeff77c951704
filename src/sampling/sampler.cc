#include "sampling/sampler.h"

#include <algorithm>
#include <string>

#include "base/fp_env.h"
#include "numerics/philox.h"
#include "numerics/softmax_row.h"
#include "sampling/steps.h"

namespace gyre::sampling {
namespace {

// Draw numbers of one position (the last word of a random number's address).
constexpr uint32_t kTokenDraw = 0, kXtcDraw = 1;

Status check_history(std::span<const int32_t> ids, size_t vocab) {
  for (int32_t id : ids)
    if (id < 0 || static_cast<size_t>(id) >= vocab)
      return fail(ErrorCode::internal, "id in the history", std::to_string(id),
                  "below " + std::to_string(vocab));
  return {};
}

// The first in rank order: logit descending, then id ascending.
size_t first_of(std::span<const float> logits, float maximum) {
  return static_cast<size_t>(std::find(logits.begin(), logits.end(), maximum) - logits.begin());
}

}  // namespace

Result<SampleWorkspace> SampleWorkspace::make(size_t vocab) {
  SampleWorkspace workspace;
  GYRE_ASSIGN(workspace.candidates, Candidates::make(vocab));
  return workspace;
}

Result<Sampler> Sampler::make(SamplerParams params, size_t vocab, uint64_t seed_if_none) {
  GYRE_TRY(validate(params, vocab));
  Sampler sampler;
  sampler.params_ = std::move(params);
  sampler.vocab_ = vocab;
  sampler.seed_ = sampler.params_.seed.value_or(seed_if_none);
  const std::vector<Step>& order = sampler.params_.order;
  sampler.greedy_ = sampler.params_.temperature == 0.0f &&
                    std::find(order.begin(), order.end(), Step::temperature) != order.end();
  for (Step step : order)
    if (sampler.is_active(step)) sampler.steps_.push_back(step);
  return sampler;
}

bool Sampler::is_active(Step step) const {
  const SamplerParams& p = params_;
  switch (step) {
    case Step::bias:
      return !p.logit_bias.empty();
    case Step::penalties:
      return p.penalty_last_n != 0 && (p.repetition_penalty != 1.0f || p.presence_penalty != 0.0f ||
                                       p.frequency_penalty != 0.0f);
    case Step::dry:
      return p.dry_multiplier > 0.0f && p.dry_penalty_last_n != 0;
    case Step::top_n_sigma:
      return !greedy_ && p.top_n_sigma > 0.0f;
    case Step::top_k:
      return !greedy_ && p.top_k > 0;
    case Step::typical:
      return !greedy_ && p.typical_p < 1.0f;
    case Step::top_p:
      return !greedy_ && p.top_p < 1.0f;
    case Step::min_p:
      return !greedy_ && p.min_p > 0.0f;
    case Step::xtc:
      return !greedy_ && p.xtc_probability > 0.0f;
    case Step::temperature:
      return !greedy_ && p.temperature != 1.0f;
  }
  return false;
}

Status Sampler::check(const SampleInput& input, const SampleWorkspace& workspace) const {
  if (input.logits.size() != vocab_)
    return fail(ErrorCode::internal, "row of logits", std::to_string(input.logits.size()),
                std::to_string(vocab_));
  if (workspace.candidates.capacity() < vocab_)
    return fail(ErrorCode::internal, "sampling workspace",
                std::to_string(workspace.candidates.capacity()),
                std::to_string(vocab_) + " or more");
  if (!input.allowed.empty() && input.allowed.size() != (vocab_ + 63) / 64)
    return fail(ErrorCode::internal, "words of allowed ids", std::to_string(input.allowed.size()),
                std::to_string((vocab_ + 63) / 64));
  if (is_active(Step::penalties))
    GYRE_TRY(check_history(last_ids(input.history, params_.penalty_last_n), vocab_));
  if (is_active(Step::dry))
    GYRE_TRY(check_history(last_ids(input.history, params_.dry_penalty_last_n), vocab_));
  return {};
}

Status Sampler::run(Step step, const SampleInput& input, SampleWorkspace& workspace) const {
  Candidates& c = workspace.candidates;
  switch (step) {
    case Step::bias:
      apply_bias(c, params_);
      break;
    case Step::penalties:
      apply_penalties(c, params_, input.history);
      break;
    case Step::dry:
      return apply_dry(c, params_, input.history, workspace.history);
    case Step::top_n_sigma:
      keep_top_n_sigma(c, params_.top_n_sigma);
      break;
    case Step::top_k:
      keep_top_k(c, params_.top_k);
      break;
    case Step::typical:
      keep_typical(c, params_.typical_p);
      break;
    case Step::top_p:
      keep_top_p(c, params_.top_p);
      break;
    case Step::min_p:
      keep_min_p(c, params_.min_p);
      break;
    case Step::xtc:
      if (numerics::random_bits(seed_, input.choice, input.position, kXtcDraw) >> 32 <
          fixed32(params_.xtc_probability))
        exclude_top_choices(c, params_.xtc_threshold);
      break;
    case Step::temperature:
      apply_temperature(c, params_.temperature);
      break;
  }
  return {};
}

Status Sampler::narrow(const SampleInput& input, SampleWorkspace& workspace) const {
  const FloatEnvironment environment;
  GYRE_TRY(check(input, workspace));
  if (!numerics::row_limits(input.logits.data(), vocab_).finite)
    return non_finite_logit(input.logits);
  Candidates& c = workspace.candidates;
  c.load(input.logits);
  if (!input.allowed.empty()) {
    const auto allowed = [&](size_t i) { return (input.allowed[i / 64] >> (i % 64) & 1) != 0; };
    size_t any = 0;
    while (any < vocab_ && !allowed(any)) ++any;
    if (any == vocab_) return fail(ErrorCode::internal, "allowed ids", "none", "one or more");
    c.keep_if(allowed);
  }
  for (Step step : steps_) GYRE_TRY(run(step, input, workspace));
  if (greedy_) {
    const float maximum = numerics::row_limits(c.values().data(), c.size()).maximum;
    const size_t first = first_of(c.values(), maximum);
    c.keep_if([&](size_t i) { return i == first; });
  }
  c.weigh();
  return {};
}

Result<Draw> Sampler::sample(const SampleInput& input, SampleWorkspace& workspace) const {
  const FloatEnvironment environment;
  Draw out;
  if (greedy_ && steps_.empty() && input.allowed.empty()) {
    GYRE_TRY(check(input, workspace));
    const numerics::RowLimits limits = numerics::row_limits(input.logits.data(), vocab_);
    if (!limits.finite) return non_finite_logit(input.logits);
    out.token = static_cast<int32_t>(first_of(input.logits, limits.maximum));
  } else {
    GYRE_TRY(narrow(input, workspace));
    out.token = draw(workspace.candidates,
                     numerics::random_bits(seed_, input.choice, input.position, kTokenDraw));
  }
  if (params_.logprobs < 0) return out;
  GYRE_ASSIGN(const LogprobRow row, LogprobRow::make(input.logits));
  out.logprob = row.of(out.token);
  const auto count = static_cast<size_t>(params_.logprobs);
  if (workspace.best.size() < count) {
    GYRE_ASSIGN(workspace.best, Array<TokenLogprob>::make(count, "logprobs"));
  }
  const std::span<TokenLogprob> best = workspace.best.span().first(count);
  row.best(best);
  out.best = best;
  return out;
}

}  // namespace gyre::sampling
