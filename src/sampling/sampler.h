// Draws tokens: a pure function of (parameters, logits, history, position, choice).
//
// No hidden state: replaying a draw, drafting it or asking for it after a restore gives the same
// token. A Sampler is immutable and may be shared by threads; each needs its own SampleWorkspace.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/memory.h"
#include "base/result.h"
#include "sampling/candidates.h"
#include "sampling/logprobs.h"
#include "sampling/params.h"
#include "sampling/penalties.h"

namespace gyre::sampling {

// Scratch of one thread for rows of up to `vocab` logits, about 29 bytes a logit. A draw allocates
// only when the history (DRY) or the number of logprobs outgrows an earlier one.
struct SampleWorkspace {
  static Result<SampleWorkspace> make(size_t vocab);

  Candidates candidates;
  HistoryScratch history;
  Array<TokenLogprob> best;
};

struct SampleInput {
  std::span<const float> logits = {};      // the row that predicts `position`, vocab long
  std::span<const int32_t> history = {};   // the request's own ids before `position`, oldest first
  uint64_t position = 0;                   // absolute position of the token to draw
  uint32_t choice = 0;                     // index of the request's choice (n > 1)
  std::span<const uint64_t> allowed = {};  // grammar: bit id of word id / 64; empty = every id
};

struct Draw {
  int32_t token = 0;
  std::optional<float> logprob;        // of the raw row, if params.logprobs >= 0
  std::span<const TokenLogprob> best;  // params.logprobs entries; valid until the next draw
};

class Sampler {
 public:
  // `seed_if_none` is used, and reported by seed(), when the parameters name none: 64 random bits.
  static Result<Sampler> make(SamplerParams params, size_t vocab, uint64_t seed_if_none);

  Result<Draw> sample(const SampleInput& input, SampleWorkspace& workspace) const;
  // All steps but the draw: leaves the survivors and their weights in workspace.candidates.
  Status narrow(const SampleInput& input, SampleWorkspace& workspace) const;

  uint64_t seed() const { return seed_; }
  const SamplerParams& params() const { return params_; }
  bool is_greedy() const { return greedy_; }

 private:
  bool is_active(Step step) const;
  Status check(const SampleInput& input, const SampleWorkspace& workspace) const;
  Status run(Step step, const SampleInput& input, SampleWorkspace& workspace) const;

  SamplerParams params_;
  std::vector<Step> steps_;  // those of the order that do something
  size_t vocab_ = 0;
  uint64_t seed_ = 0;
  bool greedy_ = false;
};

}  // namespace gyre::sampling
