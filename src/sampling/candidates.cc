#include "sampling/candidates.h"

#include <algorithm>
#include <numeric>

#include "numerics/softmax_row.h"

namespace gyre::sampling {
namespace {

constexpr size_t kBuckets = size_t{1} << 16;
constexpr size_t kSmall = 1024;  // sorted without buckets

}  // namespace

Result<Candidates> Candidates::make(size_t vocab) {
  Candidates c;
  GYRE_ASSIGN(c.values_, Array<float>::make(vocab, "sampling workspace"));
  GYRE_ASSIGN(c.ids_, Array<int32_t>::make(vocab, "sampling workspace"));
  GYRE_ASSIGN(c.weights_, Array<uint64_t>::make(vocab, "sampling workspace"));
  GYRE_ASSIGN(c.keys_, Array<uint32_t>::make(vocab, "sampling workspace"));
  GYRE_ASSIGN(c.scratch_, Array<uint64_t>::make(vocab, "sampling workspace"));
  GYRE_ASSIGN(c.histogram_, Array<uint64_t>::make(kBuckets, "sampling workspace"));
  GYRE_ASSIGN(c.counters_, Array<int32_t>::make(vocab, "sampling workspace"));
  return c;
}

void Candidates::load(std::span<const float> logits) {
  size_ = std::min(logits.size(), values_.size());
  std::copy_n(logits.data(), size_, values_.data());
  std::iota(ids_.data(), ids_.data() + size_, 0);
  weighed_ = false;
}

size_t Candidates::find(int32_t id) const {
  const auto index = static_cast<size_t>(id);
  if (index < size_ && ids_[index] == id) return index;  // nothing below was dropped
  const int32_t* end = ids_.data() + std::min(size_, index);
  const int32_t* at = std::lower_bound(ids_.data(), end, id);
  return at != end && *at == id ? static_cast<size_t>(at - ids_.data()) : size_;
}

void Candidates::weigh() {
  const float maximum = numerics::row_limits(values_.data(), size_).maximum;
  if (weighed_ && maximum == maximum_) return;
  maximum_ = maximum;
  total_ = numerics::softmax_weights(values_.data(), size_, maximum, weights_.data());
  weighed_ = true;
}

// A radix pass over the keys' upper halves finds the bucket where the prefix ends, then halving
// finds the place in it. Sums are integers, so the order of the passes doesn't matter.
template <class WeightOf>
uint64_t Candidates::cut(uint64_t target, WeightOf weight_of) {
  uint64_t* const positions = scratch_.data();
  uint64_t before = 0;
  size_t end = 0;
  if (size_ <= kSmall) {
    for (size_t i = 0; i < size_; ++i) positions[end++] = position_of(i);
  } else {
    std::fill(histogram_.begin(), histogram_.end(), 0);
    for (size_t i = 0; i < size_; ++i) histogram_[keys_[i] >> 16] += weight_of(i);
    uint32_t bucket = 0;
    while (before + histogram_[bucket] < target) before += histogram_[bucket++];
    for (size_t i = 0; i < size_; ++i)
      if (keys_[i] >> 16 == bucket) positions[end++] = position_of(i);
  }
  // `before` is the weight of all that come earlier than `begin`.
  size_t begin = 0;
  const auto weight_at = [&](size_t at) { return weight_of(positions[at] & 0xffffffffu); };
  while (end - begin > 32) {
    const size_t middle = begin + (end - begin) / 2;
    std::nth_element(positions + begin, positions + middle, positions + end);
    uint64_t half = 0;
    for (size_t i = begin; i <= middle; ++i) half += weight_at(i);
    if (before + half >= target) {
      end = middle + 1;
    } else {
      before += half;
      begin = middle + 1;
    }
  }
  std::sort(positions + begin, positions + end);
  while (begin + 1 < end && before + weight_at(begin) < target) before += weight_at(begin++);
  return positions[begin];
}

uint64_t Candidates::cut_by_count(size_t count) {
  return cut(count, [](size_t) { return uint64_t{1}; });
}

uint64_t Candidates::cut_by_weight(uint64_t target) {
  return cut(target, [this](size_t i) { return weights_[i]; });
}

void Candidates::set_rank_keys() {
  for (size_t i = 0; i < size_; ++i) keys_[i] = rank_key(values_[i]);
}

}  // namespace gyre::sampling
