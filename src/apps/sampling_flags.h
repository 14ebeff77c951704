// How a command line says the sampler's settings, and how a saved state remembers them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/flags.h"
#include "sampling/params.h"

namespace gyre::apps {

struct SamplingFlags {
  std::string order;
  int64_t top_k = 40, penalty_last = 64;
  double temperature = 0.8, top_p = 0.95, min_p = 0.05, typical = 1.0, top_n_sigma = 0.0;
  double repetition = 1.0, presence = 0.0, frequency = 0.0, xtc_probability = 0.0,
         xtc_threshold = 0.1, dry_multiplier = 0.0;
  std::optional<uint64_t> seed;
  bool ignore_eos = false;

  void add_to(Flags& flags);
  // Checked but for what depends on the vocabulary.
  Result<sampling::SamplerParams> params() const;

  // All settings as words of a command line, as one JSON array in ASCII; with the seed that was
  // used. recall() takes such words, and nothing else, back into `flags`' targets: the flags of
  // add_to(), in their ranges. Errors: bad_file.
  std::string note(uint64_t used_seed) const;
  static Status recall(const std::string& note, Flags& flags);
};

}  // namespace gyre::apps
