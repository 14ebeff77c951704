#include "sampling/steps.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace gyre::sampling {
namespace {

using Wide = unsigned __int128;

// Half to even, for 0 <= x < 2^51.
uint64_t nearest(double x) {
  constexpr double magic = 0x1.8p52;
  return static_cast<uint64_t>((x + magic) - magic);
}

// The smallest weight T with T * 2^32 >= p32 * total, at least 1.
uint64_t share_of(uint64_t p32, uint64_t total) {
  const auto t = static_cast<uint64_t>((Wide{p32} * total + 0xffffffffu) >> 32);
  return std::max<uint64_t>(t, 1);
}

// How far below the maximum, in 2^-bits, at most `largest`.
uint32_t depth(float maximum, float value, int bits, uint32_t largest) {
  const double scaled =
      (static_cast<double>(maximum) - value) * static_cast<double>(uint64_t{1} << bits);
  return scaled < largest ? static_cast<uint32_t>(nearest(scaled)) : largest;
}

}  // namespace

uint64_t fixed32(float p) {
  return nearest(static_cast<double>(p) * 0x1p32);
}

float saturate(float x) {
  constexpr float largest = std::numeric_limits<float>::max();
  return x > largest ? largest : x < -largest ? -largest : x;
}

void keep_top_k(Candidates& c, int32_t k) {
  if (k <= 0 || static_cast<size_t>(k) >= c.size()) return;
  c.set_rank_keys();
  c.keep_to(c.cut_by_count(static_cast<size_t>(k)));
}

void keep_top_p(Candidates& c, float p) {
  if (p >= 1.0f) return;
  c.weigh();
  c.set_rank_keys();
  c.keep_to(c.cut_by_weight(share_of(fixed32(p), c.total())));
}

void keep_typical(Candidates& c, float p) {
  if (p >= 1.0f) return;
  c.weigh();
  constexpr int kBits = 20;
  constexpr uint32_t kLargest = uint32_t{1} << 31;
  c.keep_if([&](size_t i) { return c.weights()[i] != 0; });
  const std::span<uint32_t> keys = c.keys();
  Wide sum = 0;
  for (size_t i = 0; i < c.size(); ++i) {
    keys[i] = depth(c.maximum(), c.values()[i], kBits, kLargest);
    sum += Wide{c.weights()[i]} * keys[i];
  }
  // -log p_i less the entropy is depth_i less the mean depth: the logarithm of the sum cancels.
  const auto mean = static_cast<uint32_t>(sum / c.total());
  for (uint32_t& key : keys) key = key > mean ? key - mean : mean - key;
  c.keep_to(c.cut_by_weight(share_of(fixed32(p), c.total())));
}

void keep_min_p(Candidates& c, float p) {
  if (p <= 0.0f) return;
  c.weigh();
  const uint64_t least = fixed32(p) << 8;  // p * 2^40, the weight of the maximum being 2^40
  c.keep_if([&](size_t i) { return c.weights()[i] >= least; });
}

void keep_top_n_sigma(Candidates& c, float n) {
  if (n <= 0.0f || c.size() < 2) return;
  c.weigh();
  constexpr int kBits = 12;
  constexpr uint32_t kLargest = uint32_t{1} << 20;  // 256: sums of squares fit 64 bits
  uint64_t sum = 0, squares = 0;
  for (size_t i = 0; i < c.size(); ++i) {
    const uint64_t d = depth(c.maximum(), c.values()[i], kBits, kLargest);
    sum += d;
    squares += d * d;
  }
  const Wide spread = Wide{c.size()} * squares - Wide{sum} * sum;
  const double sigma = std::sqrt(static_cast<double>(spread)) / static_cast<double>(c.size());
  const double deepest = static_cast<double>(n) * sigma;
  c.keep_if([&](size_t i) {
    return static_cast<double>(depth(c.maximum(), c.values()[i], kBits, kLargest)) <= deepest;
  });
}

void exclude_top_choices(Candidates& c, float threshold) {
  if (c.size() < 2) return;
  c.weigh();
  const uint64_t least = share_of(fixed32(threshold), c.total());
  size_t reach = 0, last = 0;
  for (size_t i = 0; i < c.size(); ++i) {
    if (c.weights()[i] < least) continue;
    // Ascending ids: among equal logits the later one ranks behind.
    if (reach == 0 || rank_key(c.values()[i]) >= rank_key(c.values()[last])) last = i;
    ++reach;
  }
  if (reach < 2) return;
  c.keep_if([&](size_t i) { return i == last || c.weights()[i] < least; });
}

void apply_temperature(Candidates& c, float temperature) {
  if (temperature == 1.0f) return;
  c.weigh();
  const float maximum = c.maximum();
  for (float& value : c.edit_values()) value = saturate((value - maximum) / temperature);
}

int32_t draw(Candidates& c, uint64_t random) {
  c.weigh();
  const auto target = static_cast<uint64_t>((Wide{random} * c.total()) >> 64);
  const std::span<const uint64_t> weights = c.weights();
  uint64_t prefix = 0;
  size_t i = 0;
  while ((prefix += weights[i]) <= target) ++i;
  return c.ids()[i];
}

}  // namespace gyre::sampling
