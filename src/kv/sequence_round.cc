// Rounds: a transaction over all layers of a row.
#include <algorithm>
#include <limits>
#include <string>

#include "kv/sequence.h"

namespace gyre::kv {

bool Sequence::can_begin(uint32_t drafts) const {
  if (round_ != Round::idle || reserved_ != length_) return false;
  const uint64_t target = uint64_t{length_} + drafts + 1;
  if (target > max_positions_) return false;
  size_t sizes = 0;
  (void)for_each_need(static_cast<uint32_t>(target), [&](const Need& need) -> Status {
    const size_t bytes = layers_[need.layer].part_cost(need.part, need.page);
    PageDemand* const end = demand_.data() + sizes;
    PageDemand* at = std::find_if(demand_.data(), end,
                                  [bytes](const PageDemand& d) { return d.bytes == bytes; });
    if (at == end) {
      ++sizes;
      *at = {bytes, 0};
    }
    ++at->count;
    return {};
  });
  for (size_t i = 0; i < count_; ++i) {
    if (!layers_[i].recurrent) continue;
    const RecurrentShape& shape = layers_[i].spec.recurrent;
    demand_[sizes++] = {shape.block_bytes(), 2};
    demand_[sizes++] = {shape.input_bytes(drafts + 1), 1};
  }
  return pool_->fits({demand_.data(), sizes});
}

Status Sequence::begin(uint32_t drafts) {
  GYRE_TRY(check_usable("begin"));
  Status status;
  if (round_ == Round::open || reserved_ != length_) {
    status = fail(ErrorCode::internal, "begin", round_ == Round::open ? "a round" : "a step",
                  "a row between steps");
  } else if (drafts == std::numeric_limits<uint32_t>::max()) {
    status = fail(ErrorCode::context_overflow, "drafts", std::to_string(drafts));
  } else {
    status = reserve(drafts + 1);
    if (status.ok()) status = begin_recurrent(drafts + 1);
  }
  round_ = status.ok() ? Round::open : Round::poisoned;
  round_from_ = length_;
  round_limit_ = reserved_;
  return status;
}

Status Sequence::resolve(uint32_t keep, Replay replay) {
  return close(keep, &replay);
}

Status Sequence::resolve(uint32_t keep) {
  return close(keep, nullptr);
}

Status Sequence::close(uint32_t keep, const Replay* replay) {
  GYRE_TRY(check_usable("resolve"));
  if (round_ != Round::open || keep > length_ - round_from_) {
    const bool open = round_ == Round::open;
    poison();
    return fail(ErrorCode::internal, "resolve", std::to_string(keep),
                open ? "at most the round's " + std::to_string(length_ - round_from_) + " positions"
                     : "an open round");
  }
  if (Status status = resolve_recurrent(keep, replay); !status.ok()) {
    poison();
    return status;
  }
  round_ = Round::idle;
  length_ = round_from_ + keep;
  settle();
  return {};
}

}  // namespace gyre::kv
