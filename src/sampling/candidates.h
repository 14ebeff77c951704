// The tokens still in the running for one draw: logits, ids and integer weights, side by side in
// ascending id. Owned by the caller, reused for every draw; nothing is allocated after make().
// One thread at a time.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/memory.h"
#include "base/result.h"

namespace gyre::sampling {

// Smaller key = earlier in rank order of logits alone: logit descending, -0 equal to +0.
inline uint32_t rank_key(float logit) {
  const uint32_t bits = std::bit_cast<uint32_t>(logit + 0.0f);
  return ~(bits ^ ((bits >> 31) != 0 ? 0xffffffffu : 0x80000000u));
}

class Candidates {
 public:
  static Result<Candidates> make(size_t vocab);

  // Every id of a row; the row's length is at most the vocabulary of make().
  void load(std::span<const float> logits);
  size_t capacity() const { return values_.size(); }
  size_t size() const { return size_; }
  std::span<const int32_t> ids() const { return {ids_.data(), size_}; }
  std::span<const float> values() const { return {values_.data(), size_}; }
  // Whoever writes values makes the weights stale.
  std::span<float> edit_values() {
    weighed_ = false;
    return {values_.data(), size_};
  }
  // Index of an id, or size() when it is out of the running.
  size_t find(int32_t id) const;

  // Brings maximum(), weights() and total() up to date with the values.
  void weigh();
  float maximum() const { return maximum_; }
  std::span<const uint64_t> weights() const { return {weights_.data(), size_}; }
  uint64_t total() const { return total_; }

  // Drops every index for which keep(index) is false. keep sees the state before the call and
  // must keep at least one.
  template <class Keep>
  void keep_if(Keep keep);

  // Orders by keys, smaller first, then id. A cut keeps index i iff (key << 32 | i) <= cut: the
  // shortest prefix of `count` candidates (1 <= count <= size()), or of weight `target` or more
  // (1 <= target <= total(), after weigh()).
  std::span<uint32_t> keys() { return {keys_.data(), size_}; }
  void set_rank_keys();
  uint64_t cut_by_count(size_t count);
  uint64_t cut_by_weight(uint64_t target);
  void keep_to(uint64_t cut) {
    keep_if([&](size_t i) { return position_of(i) <= cut; });
  }

  // Zeroed scratch, one counter per id; whoever uses it leaves it zeroed.
  std::span<int32_t> counters() { return counters_.span(); }

 private:
  template <class WeightOf>
  uint64_t cut(uint64_t target, WeightOf weight_of);
  uint64_t position_of(size_t i) const { return uint64_t{keys_[i]} << 32 | i; }

  Array<float> values_;
  Array<int32_t> ids_;
  Array<uint64_t> weights_;
  Array<uint32_t> keys_;
  Array<uint64_t> scratch_;
  Array<uint64_t> histogram_;  // by the upper half of a key
  Array<int32_t> counters_;
  size_t size_ = 0;
  bool weighed_ = false;
  float maximum_ = 0.0f;
  uint64_t total_ = 0;
};

template <class Keep>
void Candidates::keep_if(Keep keep) {
  size_t out = 0;
  uint64_t total = 0;
  for (size_t i = 0; i < size_; ++i) {
    const bool kept = keep(i);
    values_[out] = values_[i];
    ids_[out] = ids_[i];
    weights_[out] = weights_[i];
    total += kept ? weights_[i] : 0;
    out += kept;
  }
  size_ = out;
  total_ = total;  // meaningful only while weighed_; weigh() checks the maximum
}

}  // namespace gyre::sampling
