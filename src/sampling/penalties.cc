#include "sampling/penalties.h"

#include <algorithm>
#include <utility>

#include "sampling/steps.h"

namespace gyre::sampling {
namespace {

bool ends_with(std::span<const int32_t> ids, const std::vector<int32_t>& tail) {
  return tail.size() <= ids.size() &&
         std::equal(tail.begin(), tail.end(), ids.end() - static_cast<std::ptrdiff_t>(tail.size()));
}

bool is_breaker(int32_t id, const SamplerParams& params) {
  for (const std::vector<int32_t>& breaker : params.dry_sequence_breakers)
    if (breaker.size() == 1 && breaker[0] == id) return true;
  return false;
}

// multiplier * base^exponent by repeated products in f32; stops changing at the largest float.
float dry_penalty(const SamplerParams& params, int32_t exponent) {
  float penalty = params.dry_multiplier;
  for (int32_t i = 0; i < exponent; ++i) {
    const float next = saturate(penalty * params.dry_base);
    if (next == penalty) break;
    penalty = next;
  }
  return penalty;
}

}  // namespace

std::span<const int32_t> last_ids(std::span<const int32_t> history, int32_t n) {
  if (n < 0 || static_cast<size_t>(n) >= history.size()) return history;
  return history.last(static_cast<size_t>(n));
}

void apply_bias(Candidates& c, const SamplerParams& params) {
  const std::span<float> values = c.edit_values();
  for (const auto& [id, bias] : params.logit_bias) {
    const size_t i = c.find(id);
    if (i < values.size()) values[i] = saturate(values[i] + bias);
  }
}

void apply_penalties(Candidates& c, const SamplerParams& params, std::span<const int32_t> history) {
  const std::span<const int32_t> window = last_ids(history, params.penalty_last_n);
  const std::span<int32_t> counts = c.counters();
  for (int32_t id : window) ++counts[static_cast<size_t>(id)];
  const std::span<float> values = c.edit_values();
  for (int32_t id : window) {
    const int32_t count = std::exchange(counts[static_cast<size_t>(id)], 0);
    if (count == 0) continue;  // done at its first occurrence
    const size_t i = c.find(id);
    if (i == values.size()) continue;
    const float l = values[i];
    const float repeated = saturate(l > 0.0f ? l / params.repetition_penalty  //
                                             : l * params.repetition_penalty);
    const float often = static_cast<float>(count) * params.frequency_penalty;
    values[i] = saturate(repeated - saturate(often + params.presence_penalty));
  }
}

size_t unbroken_length(std::span<const int32_t> window, const SamplerParams& params) {
  for (size_t end = window.size(); end > 0; --end)
    for (const std::vector<int32_t>& breaker : params.dry_sequence_breakers)
      if (ends_with(window.first(end), breaker)) return window.size() - end;
  return window.size();
}

// The Z function of the reversed window: z[k] for k ids from the end, kept at lengths[n - 1 - k].
void repeat_lengths(std::span<const int32_t> window, size_t limit, std::span<int32_t> lengths) {
  const size_t n = window.size();
  const auto from_end = [&](size_t i) { return window[n - 1 - i]; };
  size_t left = 0, right = 0;  // the match that reaches furthest: from_end[left, right)
  if (n > 0) lengths[n - 1] = static_cast<int32_t>(n);
  for (size_t k = 1; k < n; ++k) {
    size_t match = 0;
    if (k < right) match = std::min(right - k, static_cast<size_t>(lengths[n - 1 - (k - left)]));
    while (k + match < n && from_end(match) == from_end(k + match)) ++match;
    if (k + match > right) left = k, right = k + match;
    lengths[n - 1 - k] = static_cast<int32_t>(match);
  }
  for (int32_t& length : lengths)
    length = static_cast<int32_t>(std::min(static_cast<size_t>(length), limit));
}

Status apply_dry(Candidates& c, const SamplerParams& params, std::span<const int32_t> history,
                 HistoryScratch& scratch) {
  const std::span<const int32_t> window = last_ids(history, params.dry_penalty_last_n);
  const size_t limit = unbroken_length(window, params);
  const size_t allowed = static_cast<size_t>(params.dry_allowed_length);
  if (limit < allowed) return {};
  if (scratch.lengths.size() < window.size()) {
    GYRE_ASSIGN(scratch.lengths, Array<int32_t>::make(window.size() * 2, "sampling history"));
  }
  const std::span<int32_t> lengths = scratch.lengths.span().first(window.size());
  repeat_lengths(window, limit, lengths);
  // The longest repeat that each id would continue.
  const std::span<int32_t> longest = c.counters();
  const auto continues = [&](size_t j) { return static_cast<size_t>(lengths[j]) >= allowed; };
  for (size_t j = 0; j + 1 < window.size(); ++j)
    if (continues(j)) {
      int32_t& best = longest[static_cast<size_t>(window[j + 1])];
      best = std::max(best, lengths[j]);
    }
  const std::span<float> values = c.edit_values();
  for (size_t j = 0; j + 1 < window.size(); ++j) {
    if (!continues(j)) continue;
    const int32_t id = window[j + 1];
    const int32_t length = std::exchange(longest[static_cast<size_t>(id)], 0);
    const size_t i = length == 0 ? values.size() : c.find(id);
    if (i == values.size() || is_breaker(id, params)) continue;
    values[i] = saturate(values[i] - dry_penalty(params, length - params.dry_allowed_length));
  }
  return {};
}

}  // namespace gyre::sampling
