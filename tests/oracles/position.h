// The position arithmetic of a batched rotating ring: which columns belong to whom, and where the
// next tokens go. No keys, no values.
//
// A ring holds `columns` columns for each of its rows, at most max_size of them between writes of
// one token; a block may leave more. RotatingPosition is its record; BatchedRotatingState changes
// it and answers each write with a plan, which Columns (columns.h) carries out on whatever a column
// holds. Counts are in tokens or columns.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace gyre::oracles {

using Numbers = std::vector<int64_t>;

struct RotatingPosition {
  int64_t max_size = 0;  // the window
  Numbers offsets;       // per row: tokens seen so far; the true position of the next one
  // Per row: columns at the left, in temporal order, that are not the row's. Falls below 0 as the
  // ring turns over keys of the row itself.
  Numbers left_pad;
  int64_t total_offset = 0;  // tokens of the group, padding included
  int64_t ring_index = 0;    // the next column to write
  bool rotated = false;      // columns are not in temporal order
  // Per row, while a padded prefill is pending: the offset at which its real tokens end.
  std::optional<Numbers> prefill_ends;

  bool operator==(const RotatingPosition&) const = default;
};

// One token for each row: append `grow` empty columns, drop the `drop` oldest, write at `column`.
struct OneTokenWrite {
  int64_t grow = 0, drop = 0, column = 0;
};
// A block: turn left by `roll_left`, keep the first `live` columns, turn each row right by its
// `row_rolls` (may be empty), drop the `drop` oldest, append the block.
struct BlockWrite {
  int64_t roll_left = 0, live = 0, drop = 0;
  Numbers row_rolls;
};

class BatchedRotatingState {
 public:
  // Offsets default to -left_pad: the first tokens of a padded row are not its own.
  BatchedRotatingState(int64_t max_size, const Numbers& left_pad);
  BatchedRotatingState(int64_t max_size, Numbers left_pad, Numbers offsets);

  const RotatingPosition& snapshot() const { return at_; }
  void restore(RotatingPosition position);

  size_t batch_size() const { return at_.offsets.size(); }
  bool has_pending_padding() const { return at_.prefill_ends.has_value(); }
  bool is_trimmable() const { return at_.total_offset < at_.max_size; }
  // Live columns, in temporal order.
  int64_t active_length() const { return at_.rotated ? at_.max_size : at_.ring_index; }
  // The row's own tokens: without padding that a prefill has still pending.
  int64_t valid_offset(size_t row) const;

  // Rows in the order of `keep`; duplicates follow.
  void filter(const std::vector<size_t>& keep);
  void add_left_pad(const Numbers& pad);  // an empty ring only
  // The next blocks bring lengths[r] tokens of row r, padded at the right to the longest.
  void prepare_prefill(const Numbers& lengths);
  // Ends it: how far each row turns right, so that its newest token stands in the last column.
  Numbers finalize_prefill();

  // `columns`: how many the ring has now, empty ones included.
  OneTokenWrite write_one(int64_t columns);
  BlockWrite write_block(int64_t columns, int64_t tokens);
  void trim(int64_t tokens);

 private:
  Numbers roll_finished_rows();
  void lower_left_pad(int64_t by);

  RotatingPosition at_;
};

void check_position(const RotatingPosition& position);
// The rows of `position` that `keep` names.
RotatingPosition filtered(const RotatingPosition& position, const std::vector<size_t>& keep);

}  // namespace gyre::oracles
