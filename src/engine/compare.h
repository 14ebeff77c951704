// What a KV scheme costs: two rows of one text, one in each scheme, in the same steps, and the
// distance between their predictions.
#pragma once

#include <functional>
#include <vector>

#include "engine/runner.h"

namespace gyre::engine {

// Means over positions [from, to) of the text. Perplexities are those of the tokens after them.
struct SchemeDistance {
  uint32_t from = 0, to = 0;
  double perplexity = 0.0, against_perplexity = 0.0;
  double kl = 0.0;        // nats, KL(against || scheme)
  double same_top = 0.0;  // share of positions with the same likeliest token
};

struct SchemeComparison {
  SchemeDistance all;
  std::vector<SchemeDistance> depths;  // 0-1k, 1-2k, 2-4k, 4-8k, ... as far as the text goes
};

struct CompareSettings {
  uint32_t chunk = 256;  // tokens of one row in one step; no figure depends on it
  std::function<void(uint32_t done, uint32_t total)> progress;
};

// The runner needs two rows and room for 2 * chunk tokens; at least two ids.
Result<SchemeComparison> compare_schemes(Runner& runner, std::span<const TokenId> ids,
                                         const kv::KvScheme& scheme, const kv::KvScheme& against,
                                         const CompareSettings& settings);

}  // namespace gyre::engine
