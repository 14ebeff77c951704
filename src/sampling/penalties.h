// The steps that change logits by the request's own ids: bias, repetition penalties, DRY.
// Exact rules: docs/formats/sampling.md. Every result beyond the floats saturates.
#pragma once

#include <cstdint>
#include <span>

#include "base/memory.h"
#include "base/result.h"
#include "sampling/candidates.h"
#include "sampling/params.h"

namespace gyre::sampling {

// Scratch that grows with the history; reused between draws.
struct HistoryScratch {
  Array<int32_t> lengths;
};

// The part of the history that a window setting covers: its last n ids, all for -1.
std::span<const int32_t> last_ids(std::span<const int32_t> history, int32_t n);

void apply_bias(Candidates& c, const SamplerParams& params);
void apply_penalties(Candidates& c, const SamplerParams& params, std::span<const int32_t> history);
Status apply_dry(Candidates& c, const SamplerParams& params, std::span<const int32_t> history,
                 HistoryScratch& scratch);

// How many ids at the end of `window` lie behind the latest complete breaker; all without one.
size_t unbroken_length(std::span<const int32_t> window, const SamplerParams& params);

// lengths[j] = how many ids ending at window[j] equal the window's last ids, at most `limit`;
// the last entry counts the window itself. Linear time. lengths.size() == window.size().
void repeat_lengths(std::span<const int32_t> window, size_t limit, std::span<int32_t> lengths);

}  // namespace gyre::sampling
