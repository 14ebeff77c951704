#include "kv/sequence.h"

#include <algorithm>
#include <limits>
#include <new>
#include <string>

namespace gyre::kv {

using kernels::kPagePositions;

Result<Sequence> Sequence::make(PagePool& pool, const SequenceSpec& spec) {
  if (spec.max_positions > std::numeric_limits<int32_t>::max())
    return fail(ErrorCode::context_overflow, "context", std::to_string(spec.max_positions),
                "below 2^31 positions");
  GYRE_TRY(check_layers(spec.layers));
  Sequence made;
  const size_t count = spec.layers.size();
  made.layers_.reset(allocation_must_fail() ? nullptr : new (std::nothrow) LayerState[count]);
  if (made.layers_ == nullptr) return fail(ErrorCode::out_of_memory, "KV sequence");
  // A layer's pages have at most three sizes, and its anchor has one.
  GYRE_ASSIGN(made.demand_, Array<PageDemand>::make(4 * count, "KV page sizes"));
  for (size_t i = 0; i < count; ++i) {
    made.layers_[i].spec = spec.layers[i];
    if (spec.layers[i].donor < 0 && spec.layers[i].place == Place::recurrent) {
      GYRE_ASSIGN(made.layers_[i].recurrent, RecurrentState::make(pool, spec.layers[i].recurrent));
    }
    made.has_codes_ |= made.layers_[i].owns() && made.layers_[i].has_code();
  }
  made.pool_ = &pool;
  made.count_ = count;
  made.max_positions_ = spec.max_positions;
  made.start_ = spec.start;
  made.reset();
  return made;
}

Result<Sequence> Sequence::clone() const {
  GYRE_TRY(check_usable("clone"));
  if (round_ == Round::open || reserved_ != length_)
    return fail(ErrorCode::internal, "clone", round_ == Round::open ? "a round" : "a step",
                "a row between steps");
  Sequence made;
  made.layers_.reset(allocation_must_fail() ? nullptr : new (std::nothrow) LayerState[count_]);
  if (made.layers_ == nullptr) return fail(ErrorCode::out_of_memory, "KV sequence");
  GYRE_ASSIGN(made.demand_, Array<PageDemand>::make(4 * count_, "KV page sizes"));
  for (size_t i = 0; i < count_; ++i) {
    const LayerState& from = layers_[i];
    LayerState& to = made.layers_[i];
    to.spec = from.spec;
    GYRE_ASSIGN(to.plain, from.plain.share());
    GYRE_ASSIGN(to.coded, from.coded.share());
    to.anchor = from.anchor.share();
    to.anchor_fixed = from.anchor_fixed;
    if (from.recurrent) {
      GYRE_ASSIGN(to.recurrent, from.recurrent->clone());
    }
  }
  made.pool_ = pool_;
  made.count_ = count_;
  made.length_ = made.reserved_ = length_;
  made.max_positions_ = max_positions_;
  made.start_ = start_;
  made.has_codes_ = has_codes_;
  made.plain_ = plain_;
  made.dirty_tail_ = dirty_tail_;
  made.codes_ = codes_;
  return made;
}

Status Sequence::check_usable(const char* call) const {
  if (round_ != Round::poisoned) return {};
  return fail(ErrorCode::internal, call, "a poisoned row", "reset first");
}

void Sequence::reset() {
  for (size_t i = 0; i < count_; ++i) {
    LayerState& of = layers_[i];
    of.plain.clear();
    of.coded.clear();
    of.anchor.reset();
    of.anchor_fixed = false;
    if (of.recurrent) of.recurrent->reset();
  }
  length_ = reserved_ = 0;
  const bool coded_at_once = has_codes_ && start_ == 0;
  plain_ = !coded_at_once;
  codes_ = coded_at_once ? Codes::ready : Codes::none;
  dirty_tail_ = false;
  round_ = Round::idle;
  scratch_ = {};
}

View Sequence::view(size_t layer, bool coded) const {
  const LayerState& of = owner(layer);
  const Part part = coded && of.has_code() ? Part::coded : Part::plain;
  const PageTable& table = of.table(part);
  View out;
  // Page 0 has its own layout; kernels know it from the anchored one.
  out.layout = of.spec.layout;
  if (part == Part::plain && of.has_code()) out.layout.code = kBf16Code;
  out.pages = table.data();
  out.page_count = table.end();
  if (part == Part::coded) out.anchor = of.anchor.data();
  return out;
}

uint32_t Sequence::coded_from(size_t layer) const {
  return owner(layer).has_code() ? start_ : std::numeric_limits<uint32_t>::max();
}

Visible Sequence::visible(size_t layer, uint32_t position) const {
  return {owner(layer).first_seen(position), position + 1};
}

// Zeros behind the length, in pages that are this row's alone.
void Sequence::erase_tails() {
  const size_t tail = length_ / kPagePositions;
  const uint32_t from = length_ % kPagePositions;
  dirty_tail_ = false;
  for (size_t i = 0; i < count_ && from != 0; ++i) {
    for (const Part part : {Part::plain, Part::coded}) {
      const PageTable& table = layers_[i].table(part);
      if (!table.holds(tail)) continue;
      if (table.shared(tail)) {
        dirty_tail_ = true;
      } else {
        kernels::erase_positions(layers_[i].layout(part, tail), table.page(tail), from,
                                 kPagePositions);
      }
    }
  }
}

// What a step ends with: positions, pages and codes as the length alone demands.
void Sequence::settle() {
  if (length_ == 0) return reset();
  if (codes_ != Codes::none && plain_) {
    // Up to the start a row is plain, as if no step had gone beyond; after it nobody reads bf16.
    plain_ = length_ <= start_;
    if (plain_) codes_ = Codes::none;
    for (size_t i = 0; i < count_; ++i) {
      if (layers_[i].has_code()) (plain_ ? layers_[i].coded : layers_[i].plain).clear();
    }
  }
  if (reserved_ > length_) {
    for (size_t i = 0; i < count_; ++i) {
      layers_[i].plain.drop_from(pages_for(length_));
      layers_[i].coded.drop_from(pages_for(length_));
    }
    erase_tails();
    reserved_ = length_;
  }
  for (size_t i = 0; i < count_; ++i) {
    LayerState& of = layers_[i];
    if (!of.owns()) continue;
    if (length_ < kPagePositions) {
      of.anchor.reset();
      of.anchor_fixed = false;
    }
    const size_t keep = of.first_seen(length_) / kPagePositions;
    of.plain.drop_before(keep);
    of.coded.drop_before(keep);
  }
  scratch_ = {};
}

Status Sequence::can_commit(uint32_t n) const {
  GYRE_TRY(check_usable("commit"));
  if (n > reserved_ - length_)
    return fail(ErrorCode::internal, "commit", std::to_string(n),
                "at most the " + std::to_string(reserved_ - length_) + " reserved positions");
  const uint32_t length = length_ + n;
  if (has_codes_ && length > start_ && codes_ != Codes::ready)
    return fail(ErrorCode::internal, "commit", std::to_string(length),
                "the codes of the past: convert first");
  for (size_t i = 0; i < count_ && length >= kPagePositions; ++i) {
    if (layers_[i].anchor && !layers_[i].anchor_fixed)
      return fail(ErrorCode::internal, "commit", std::to_string(length),
                  "the anchor of layer " + std::to_string(i));
  }
  for (size_t i = 0; i < count_; ++i) {
    if (const RecurrentState* state = recurrent(i);
        state != nullptr && n != 0 && state->advanced() != n)
      return fail(ErrorCode::internal, "commit", std::to_string(n),
                  "the " + std::to_string(state->advanced()) + " tokens that layer " +
                      std::to_string(i) + " advanced by");
  }
  return {};
}

Status Sequence::commit(uint32_t n) {
  GYRE_TRY(can_commit(n));
  for (size_t i = 0; i < count_; ++i) {
    if (RecurrentState* state = recurrent(i); state != nullptr) GYRE_TRY(state->commit(n));
  }
  settle_blocks(n != 0 || round_ == Round::open);
  length_ += n;
  if (round_ == Round::idle) settle();
  return {};
}

uint32_t Sequence::minimum_reusable_length() const {
  uint32_t most = plain_ || !has_codes_ ? 0 : start_;
  for (size_t i = 0; i < count_; ++i) {
    const LayerState& of = layers_[i];
    const size_t first = std::max(of.plain.first(), of.coded.first());
    if (!of.owns() || first == 0) continue;
    most = std::max(most, static_cast<uint32_t>(first * kPagePositions + of.spec.window - 1));
  }
  for (size_t i = 0; i < count_; ++i) {
    if (const RecurrentState* state = recurrent(i); state != nullptr)
      return state->smallest_length(std::max(most, 1u));  // checkpoints are the same in all
  }
  return most;
}

uint32_t Sequence::reusable_length(uint32_t at_most) const {
  uint32_t length = std::min(at_most, length_);
  for (size_t i = 0; i < count_; ++i) {
    if (const RecurrentState* state = recurrent(i); state != nullptr)
      length = std::min(length, state->reusable_length(length));
  }
  return length >= minimum_reusable_length() ? length : 0;
}

Status Sequence::truncate(uint32_t length) {
  GYRE_TRY(check_usable("truncate"));
  if (round_ == Round::open)
    return fail(ErrorCode::internal, "truncate", "a round", "resolve first");
  if (length > length_)
    return fail(ErrorCode::internal, "truncate", std::to_string(length),
                "at most the length, " + std::to_string(length_));
  const uint32_t least = minimum_reusable_length();
  if (length != 0 && length < least)
    return fail(ErrorCode::unsupported, "truncate", std::to_string(length),
                "at least " + std::to_string(least) +
                    ": a window has moved on, or what is before was bf16");
  if (const uint32_t nearest = reusable_length(length); nearest != length)
    return fail(
        ErrorCode::unsupported, "truncate", std::to_string(length),
        "a checkpoint of the recurrent layers; the one before is at " + std::to_string(nearest));
  for (size_t i = 0; i < count_; ++i) {
    if (RecurrentState* state = recurrent(i); state != nullptr) GYRE_TRY(state->truncate(length));
  }
  reserved_ = std::max(reserved_, length_);
  length_ = length;
  settle();
  return {};
}

}  // namespace gyre::kv
