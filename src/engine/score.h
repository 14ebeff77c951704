// Teacher forcing: the log-probability that a model gives each next token of a text.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/runner.h"

namespace gyre::engine {

struct Score {
  std::vector<double> logprobs;  // logprobs[i] = log P(ids[i + 1] | ids[0 .. i])
  double perplexity = 0.0;       // exp(-mean logprob); 0 when there is none
  std::string digest;            // hash of every logit's bits, positions ascending
};

struct ScoreSettings {
  uint32_t chunk = 512;  // prompt tokens of one step; bits do not depend on it
  // Sees each position's logits in order; may be empty. Returning false cancels.
  std::function<bool(uint32_t position, std::span<const float> logits)> on_logits;
};

Result<Score> score(Runner& runner, std::span<const TokenId> ids, const ScoreSettings& settings);

// The digest of everything a step computed: residual stream bits of all its tokens, added in order.
class Digest {
 public:
  Digest();
  ~Digest();
  Digest(const Digest& other);  // goes on from where the other stands
  Digest& operator=(const Digest& other);
  void add(std::span<const float> values);
  std::string hex() const;  // 32 characters

 private:
  void* state_;
};

}  // namespace gyre::engine
