// Pages for a step, all or nothing: what it needs is enumerated in one place, for the estimate, for
// the admission and for the allocation.
#include <algorithm>
#include <limits>
#include <string>

#include "kv/sequence.h"

namespace gyre::kv {

using kernels::kPagePositions;

Sequence::Want Sequence::wanted(const LayerState& layer, Part part, uint32_t target) const {
  const bool delayed = layer.has_code();
  if (part == Part::plain) {
    if (delayed && !plain_) return {};
    const uint32_t limit = delayed ? std::min(target, start_) : target;
    return {length_ < limit, layer.plain.end(), pages_for(limit)};
  }
  if (!delayed || (codes_ == Codes::none && target <= start_)) return {};
  // Codes of the past begin where the plain pages do: a window may have moved on.
  const bool fresh = codes_ == Codes::none;
  return {!fresh, fresh ? layer.plain.first() : layer.coded.end(), pages_for(target)};
}

Status Sequence::for_each_need(uint32_t target, FunctionRef<Status(const Need&)> take) const {
  const size_t tail = length_ / kPagePositions;
  const bool open_tail = length_ % kPagePositions != 0;
  for (size_t i = 0; i < count_; ++i) {
    const LayerState& of = layers_[i];
    if (!of.owns()) continue;
    for (const Part part : {Part::plain, Part::coded}) {
      const Want want = wanted(of, part, target);
      if (want.written && open_tail && of.table(part).shared(tail))
        GYRE_TRY(take({i, part, tail, true}));
      for (size_t page = want.from; page < want.end; ++page) GYRE_TRY(take({i, part, page, false}));
    }
    if (of.anchored() && !of.anchor && target >= kPagePositions)
      GYRE_TRY(take({i, Part::anchor, 0, false}));
  }
  return {};
}

Status Sequence::widen_tables(uint32_t target) {
  for (size_t i = 0; i < count_; ++i) {
    LayerState& of = layers_[i];
    if (!of.owns()) continue;
    for (const Part part : {Part::plain, Part::coded}) {
      const Want want = wanted(of, part, target);
      if (want.from < want.end) GYRE_TRY(of.table(part).widen(want.from, want.end));
    }
  }
  return {};
}

// Room to make a plain page 0 wide before its mean is taken.
Status Sequence::prepare_scratch(uint32_t target) {
  if (length_ >= kPagePositions || target < kPagePositions || !scratch_.empty()) return {};
  if (codes_ != Codes::none || target > start_) return {};  // there will be a wide page
  size_t most = 0;
  for (size_t i = 0; i < count_; ++i) {
    const LayerState& of = layers_[i];
    if (!of.owns() || !of.anchored()) continue;
    const size_t row = 64 + sizeof(float) * of.spec.layout.kv_heads *
                                (size_t{of.spec.layout.k_dim} + of.spec.layout.v_dim);
    most = std::max(most, row + of.part_bytes(Part::coded, 0));
  }
  if (most == 0) return {};
  GYRE_ASSIGN(scratch_, Array<std::byte>::make(most, "KV anchor scratch"));
  return {};
}

Status Sequence::stage(const Need& need) {
  LayerState& of = layers_[need.layer];
  const size_t bytes = of.part_bytes(need.part, need.page);
  if (need.part == Part::anchor) {
    GYRE_ASSIGN(of.staged_anchor, pool_->allocate(bytes));
    return {};
  }
  PageTable& table = of.table(need.part);
  return need.copy ? table.stage_copy(*pool_, need.page, bytes) : table.stage(*pool_, bytes);
}

void Sequence::accept(uint32_t target) {
  for (size_t i = 0; i < count_; ++i) {
    LayerState& of = layers_[i];
    if (!of.owns()) continue;
    of.plain.accept();
    of.coded.accept();
    if (of.staged_anchor) of.anchor = std::move(of.staged_anchor);
  }
  if (has_codes_ && codes_ == Codes::none && target > start_) codes_ = Codes::taken;
  reserved_ = target;
}

void Sequence::discard() {
  for (size_t i = 0; i < count_; ++i) {
    LayerState& of = layers_[i];
    of.plain.discard();
    of.coded.discard();
    of.staged_anchor.reset();
    if (codes_ == Codes::none) of.coded.clear();
  }
}

Status Sequence::reserve(uint32_t n) {
  GYRE_TRY(check_usable("reserve"));
  const uint64_t wanted = uint64_t{length_} + n;
  if (wanted > max_positions_)
    return fail(ErrorCode::context_overflow, "positions", std::to_string(wanted),
                "at most " + std::to_string(max_positions_));
  if (round_ == Round::open && wanted > round_limit_)
    return fail(ErrorCode::internal, "positions of a round", std::to_string(wanted - round_from_),
                "at most " + std::to_string(round_limit_ - round_from_));
  GYRE_TRY(reserve_blocks(n));
  if (wanted <= reserved_) return {};
  const auto target = static_cast<uint32_t>(wanted);
  Status status = prepare_scratch(target);
  if (status.ok()) status = widen_tables(target);
  if (status.ok()) status = for_each_need(target, [this](const Need& need) { return stage(need); });
  if (!status.ok()) {
    settle_blocks(false);
    discard();
    return status;
  }
  accept(target);
  if (dirty_tail_) erase_tails();
  return {};
}

size_t Sequence::projected_bytes(uint32_t n) const {
  const uint64_t wanted = uint64_t{length_} + n;
  if (wanted > max_positions_) return std::numeric_limits<size_t>::max();
  size_t total = 0;
  for (size_t i = 0; i < count_ && n != 0; ++i)
    total += layers_[i].recurrent ? layers_[i].recurrent->projected_bytes() : 0;
  if (wanted <= reserved_) return total;
  (void)for_each_need(static_cast<uint32_t>(wanted), [&](const Need& need) -> Status {
    total += layers_[need.layer].part_cost(need.part, need.page);
    return {};
  });
  return total;
}

}  // namespace gyre::kv
