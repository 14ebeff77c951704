#include "oracles/position.h"

#include <algorithm>
#include <utility>

#include "oracles/require.h"

namespace gyre::oracles {
namespace {

constexpr int64_t kGrowth = 256;

Numbers pick(const Numbers& from, const std::vector<size_t>& keep) {
  Numbers out;
  out.reserve(keep.size());
  for (const size_t row : keep) {
    require(row < from.size(), "filter: a row that the ring has");
    out.push_back(from[row]);
  }
  return out;
}

Numbers negated(Numbers numbers) {
  for (int64_t& n : numbers) n = -n;
  return numbers;
}

}  // namespace

void check_position(const RotatingPosition& position) {
  require(position.max_size > 0, "position: a window of at least one token");
  require(position.offsets.size() == position.left_pad.size(), "position: one pad for each offset");
  require(position.total_offset >= 0 && position.ring_index >= 0, "position: nothing negative");
  require(!position.prefill_ends || position.prefill_ends->size() == position.offsets.size(),
          "position: one end for each row");
  require(!position.rotated || position.ring_index <= position.max_size,
          "position: a rotated ring has max_size columns");
}

RotatingPosition filtered(const RotatingPosition& position, const std::vector<size_t>& keep) {
  RotatingPosition out = position;
  out.offsets = pick(position.offsets, keep);
  out.left_pad = pick(position.left_pad, keep);
  if (position.prefill_ends) out.prefill_ends = pick(*position.prefill_ends, keep);
  return out;
}

BatchedRotatingState::BatchedRotatingState(int64_t max_size, const Numbers& left_pad)
    : BatchedRotatingState(max_size, left_pad, negated(left_pad)) {}

BatchedRotatingState::BatchedRotatingState(int64_t max_size, Numbers left_pad, Numbers offsets) {
  RotatingPosition position;
  position.max_size = max_size;
  position.left_pad = std::move(left_pad);
  position.offsets = std::move(offsets);
  restore(std::move(position));
}

void BatchedRotatingState::restore(RotatingPosition position) {
  check_position(position);
  at_ = std::move(position);
}

int64_t BatchedRotatingState::valid_offset(size_t row) const {
  require(row < batch_size(), "valid_offset: a row that the ring has");
  const int64_t offset = at_.offsets[row];
  return at_.prefill_ends ? std::min(offset, (*at_.prefill_ends)[row]) : offset;
}

void BatchedRotatingState::filter(const std::vector<size_t>& keep) {
  at_ = filtered(at_, keep);
}

void BatchedRotatingState::add_left_pad(const Numbers& pad) {
  require(at_.total_offset == 0, "add_left_pad: an empty ring");
  require(pad.size() == batch_size(), "add_left_pad: one pad for each row");
  for (size_t row = 0; row < pad.size(); ++row) {
    require(pad[row] >= 0, "add_left_pad: no negative pad");
    at_.left_pad[row] += pad[row];
    at_.offsets[row] -= pad[row];
  }
}

void BatchedRotatingState::prepare_prefill(const Numbers& lengths) {
  require(!has_pending_padding(), "prepare_prefill: none pending");
  require(lengths.size() == batch_size() && !lengths.empty(), "prepare_prefill: one length a row");
  require(*std::min_element(lengths.begin(), lengths.end()) >= 0, "prepare_prefill: lengths >= 0");
  if (std::equal(lengths.begin() + 1, lengths.end(), lengths.begin())) return;  // nothing to pad
  Numbers ends = at_.offsets;
  for (size_t row = 0; row < ends.size(); ++row) ends[row] += lengths[row];
  at_.prefill_ends = std::move(ends);
}

Numbers BatchedRotatingState::roll_finished_rows() {
  if (!at_.prefill_ends) return {};
  Numbers rolls(batch_size());
  for (size_t row = 0; row < rolls.size(); ++row) {
    rolls[row] = std::max<int64_t>(0, at_.offsets[row] - (*at_.prefill_ends)[row]);
    at_.left_pad[row] += rolls[row];
    at_.offsets[row] -= rolls[row];
  }
  return rolls;
}

Numbers BatchedRotatingState::finalize_prefill() {
  Numbers rolls = roll_finished_rows();
  at_.prefill_ends.reset();
  return rolls;
}

void BatchedRotatingState::lower_left_pad(int64_t by) {
  for (int64_t& pad : at_.left_pad) pad -= by;
}

OneTokenWrite BatchedRotatingState::write_one(int64_t columns) {
  require(!has_pending_padding(), "write_one: no padded prefill pending");
  OneTokenWrite plan;
  const int64_t window = at_.max_size;
  if (columns < window && at_.total_offset >= columns) {
    // A full ring whose newest column was taken back has window - 1 of them: it grows by one.
    plan.grow =
        at_.total_offset < window ? std::min(kGrowth, window - at_.total_offset) : window - columns;
    at_.ring_index = columns;
  }
  if (columns > window) {
    plan.drop = columns - window;
    at_.ring_index = window;
    lower_left_pad(plan.drop);
  }
  if (at_.ring_index == window) {
    at_.rotated = true;
    at_.ring_index = 0;
  }
  if (at_.rotated) lower_left_pad(1);
  plan.column = at_.ring_index;
  require(plan.column < columns + plan.grow - plan.drop, "write_one: a column to write in");
  ++at_.ring_index;
  ++at_.total_offset;
  for (int64_t& offset : at_.offsets) ++offset;
  return plan;
}

BlockWrite BatchedRotatingState::write_block(int64_t columns, int64_t tokens) {
  require(tokens > 0, "write_block: at least one token");
  BlockWrite plan;
  if (at_.rotated) {
    require(columns == at_.max_size, "write_block: a rotated ring of max_size columns");
    plan.roll_left = at_.ring_index;
    at_.rotated = false;
    at_.ring_index = columns;
  }
  plan.live = at_.ring_index;
  require(plan.live <= columns, "write_block: live columns that exist");
  plan.row_rolls = roll_finished_rows();
  plan.drop = std::max<int64_t>(0, plan.live - at_.max_size + 1);
  lower_left_pad(plan.drop);
  at_.ring_index = plan.live - plan.drop + tokens;
  at_.total_offset += tokens;
  for (int64_t& offset : at_.offsets) offset += tokens;
  return plan;
}

void BatchedRotatingState::trim(int64_t tokens) {
  require(tokens >= 0, "trim: no negative count");
  require(is_trimmable(), "trim: a ring that has not turned over");
  const int64_t count = std::min(at_.total_offset, tokens);
  at_.total_offset -= count;
  at_.ring_index -= count;
  require(at_.ring_index >= 0, "trim: columns that exist");
  for (int64_t& offset : at_.offsets) offset -= count;
}

}  // namespace gyre::oracles
