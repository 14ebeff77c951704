#include "oracles/batched_ring.h"

#include <algorithm>
#include <utility>

#include "oracles/require.h"

namespace gyre::oracles {

BatchedRing::BatchedRing(Columns columns, RowKind kind, RotatingPosition position)
    : state_(position.max_size, {}), columns_(std::move(columns)), kind_(kind) {
  state_.restore(std::move(position));
}

BatchedRing BatchedRing::adopt_physical(Columns columns, RowKind kind, RotatingPosition position) {
  check_position(position);
  require(kind.form != RowKind::Form::foreign, "ring: a kind that rings have");
  require(columns.rows() == position.offsets.size(), "ring: columns for every row");
  require(position.ring_index <= columns.count(), "ring: an index within its columns");
  require(!position.rotated || columns.count() == position.max_size,
          "ring: max_size columns when rotated");
  return {std::move(columns), kind, std::move(position)};
}

std::string BatchedRing::signature() const {
  return SoloRing(max_size(), kind_).signature();
}

Columns BatchedRing::fetched() const {
  Columns out = columns_;
  if (position().total_offset < max_size()) out.keep_first(position().total_offset);
  return out;
}

Mask BatchedRing::make_mask(int64_t tokens, std::optional<int64_t> window) const {
  return batched_mask(position(), tokens, window.value_or(max_size()),
                      tokens > 1 || state_.has_pending_padding());
}

AttentionRead BatchedRing::append_decode(const std::vector<Tokens>& tokens) {
  require(!state_.has_pending_padding(), "append_decode: no padded prefill pending");
  AttentionRead read;
  read.mask = make_mask(1);
  columns_.apply(state_.write_one(columns_.count()), tokens);
  read.keys = fetched();
  return read;
}

AttentionRead BatchedRing::append_window(const std::vector<Tokens>& tokens,
                                         std::optional<int64_t> window) {
  require(!tokens.empty() && !tokens[0].empty(), "append_window: tokens");
  const auto count = static_cast<int64_t>(tokens[0].size());
  if (count == 1 && !state_.has_pending_padding()) return append_decode(tokens);
  return append_window_under(tokens, make_mask(count, window));
}

AttentionRead BatchedRing::append_window_under(const std::vector<Tokens>& tokens, Mask mask) {
  require(!tokens.empty() && !tokens[0].empty(), "append_window: tokens");
  const auto count = static_cast<int64_t>(tokens[0].size());
  AttentionRead read;
  read.mask = std::move(mask);
  read.kernel = ReadKernel::masked_window;
  columns_.apply(state_.write_block(columns_.count(), count), tokens);
  read.keys = columns_;
  return read;
}

void BatchedRing::finalize_prefill() {
  const Numbers rolls = state_.finalize_prefill();
  if (rolls.empty()) return;
  columns_.shift_right(rolls, position().ring_index);  // a pending ring is never rotated
}

void BatchedRing::filter_rows(const std::vector<size_t>& keep) {
  columns_.filter(keep);
  state_.filter(keep);
}

std::optional<SoloRing> BatchedRing::extract_row(size_t row, std::optional<int64_t> limit) const {
  require(row < batch_size(), "extract_row: a row that the ring has");
  require(!state_.has_pending_padding(), "extract_row: no padded prefill pending");
  // A window of one token may have no column left and still be somewhere.
  if (columns_.count() == 0 && position().offsets[row] == 0) return std::nullopt;
  Columns view = columns_;
  view.filter({row});
  if (position().rotated) view.roll_left(position().ring_index);
  view.keep_first(state_.active_length());
  int64_t first = std::clamp<int64_t>(position().left_pad[row], 0, view.count());
  if (limit) first = std::max(first, view.count() - *limit);
  view.drop_first(first);
  return SoloRing::from_temporal(max_size(), kind_, view.row(0), position().offsets[row]);
}

BatchedRing BatchedRing::to_quantized(uint32_t group, uint32_t bits) const {
  require(kind_.is_plain(), "to_quantized: a plain ring");
  require(columns_.count() > 0, "to_quantized: a ring that holds something");
  return adopt_physical(columns_, quantized_kind(bits, group), position());
}

BatchedRing rollback_rotating_ring(const BatchedRing& ring, const Numbers& before, Numbers keep,
                                   bool preserve_columns) {
  const size_t rows = ring.batch_size();
  require(rows > 0 && before.size() == rows, "rollback: the offsets of every row");
  require(!ring.state().has_pending_padding(), "rollback: no padded prefill pending");
  if (keep.size() == 1 && rows > 1) keep.assign(rows, keep[0]);
  require(keep.size() == rows, "rollback: one keep, or one for every row");

  RotatingPosition at = ring.position();
  const int64_t written = at.offsets[0] - before[0];
  for (size_t row = 0; row < rows; ++row) {
    require(at.offsets[row] - before[row] == written, "rollback: every row got as many tokens");
    require(keep[row] >= 0 && keep[row] <= written, "rollback: a keep of what was written");
    require(ring.state().active_length() - std::max<int64_t>(at.left_pad[row], 0) -
                    (written - keep[row]) >=
                std::min(before[row] + keep[row], at.max_size - 1),
            "rollback: keys for the next query, not overwritten in place");
  }
  const int64_t longest = preserve_columns ? written : *std::max_element(keep.begin(), keep.end());

  Columns columns = ring.columns();
  if (const int64_t cut = written - longest; cut > 0) {
    if (at.rotated) {
      columns.roll_left(at.ring_index);
      at.ring_index = at.max_size;
      at.rotated = false;
    }
    at.ring_index -= cut;
    at.total_offset -= cut;
    columns.keep_first(at.ring_index);
  }
  Numbers shifts(rows);
  for (size_t row = 0; row < rows; ++row) {
    shifts[row] = longest - keep[row];
    at.left_pad[row] += shifts[row];
    at.offsets[row] = before[row] + keep[row];
  }
  const int64_t turned = at.rotated ? at.ring_index : 0;
  columns.roll_left(turned);
  columns.shift_right(shifts, at.rotated ? at.max_size : at.ring_index);
  if (turned > 0) columns.roll_left(at.max_size - turned);
  return BatchedRing::adopt_physical(std::move(columns), ring.kind(), std::move(at));
}

}  // namespace gyre::oracles
