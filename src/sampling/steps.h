// The filters: each drops candidates and never the last one. Exact rules: docs/formats/sampling.md.
#pragma once

#include <cstdint>

#include "sampling/candidates.h"

namespace gyre::sampling {

// A probability as a fraction of 2^32, half to even; exact sums compare against it.
uint64_t fixed32(float p);

void keep_top_k(Candidates& c, int32_t k);
void keep_top_p(Candidates& c, float p);
void keep_typical(Candidates& c, float p);
void keep_min_p(Candidates& c, float p);
void keep_top_n_sigma(Candidates& c, float n);
// Drops all but the least probable of those that reach the threshold.
void exclude_top_choices(Candidates& c, float threshold);
// l = (l - maximum) / temperature; temperature > 0.
void apply_temperature(Candidates& c, float temperature);

// Draws with 64 random bits: the lowest id whose inclusive prefix sum exceeds floor(r W / 2^64).
int32_t draw(Candidates& c, uint64_t random);

// Beyond the floats: the largest of its sign.
float saturate(float x);

}  // namespace gyre::sampling
