// A ring of rows: the position record together with its columns, and the rows' one storage kind.
// What the documents have as a plain and as a quantized batched ring.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "oracles/columns.h"
#include "oracles/mask.h"
#include "oracles/position.h"
#include "oracles/solo_ring.h"

namespace gyre::oracles {

class BatchedRing {
 public:
  // Columns as they lie, under a position that fits them; 0 columns: nothing stored yet.
  static BatchedRing adopt_physical(Columns columns, RowKind kind, RotatingPosition position);

  const RotatingPosition& position() const { return state_.snapshot(); }
  const BatchedRotatingState& state() const { return state_; }
  const Columns& columns() const { return columns_; }
  RowKind kind() const { return kind_; }
  int64_t max_size() const { return position().max_size; }
  size_t batch_size() const { return state_.batch_size(); }
  int64_t valid_offset(size_t row) const { return state_.valid_offset(row); }
  bool is_trimmable() const { return state_.is_trimmable(); }
  std::string signature() const;

  // Always an array.
  Mask make_mask(int64_t tokens, std::optional<int64_t> window = {}) const;
  // One column for each row in place, or a block; a pending padded prefill makes any write a block.
  AttentionRead append_decode(const std::vector<Tokens>& tokens);
  AttentionRead append_window(const std::vector<Tokens>& tokens,
                              std::optional<int64_t> window = {});
  // A block under a mask that the caller knows to be the same.
  AttentionRead append_window_under(const std::vector<Tokens>& tokens, Mask mask);

  void prepare_prefill(const Numbers& lengths) { state_.prepare_prefill(lengths); }
  void finalize_prefill();
  void trim(int64_t tokens) { state_.trim(tokens); }
  void filter_rows(const std::vector<size_t>& keep);
  // The row alone, its newest `limit` columns; nothing when the row is empty.
  std::optional<SoloRing> extract_row(size_t row, std::optional<int64_t> limit = {}) const;
  // The same columns in another kind. Plain and not empty, or refused.
  BatchedRing to_quantized(uint32_t group, uint32_t bits) const;

 private:
  BatchedRing(Columns columns, RowKind kind, RotatingPosition position);
  Columns fetched() const;

  BatchedRotatingState state_;
  Columns columns_;
  RowKind kind_;
};

// Takes back what was written since the offsets `before`, but for the first keep[r] tokens of each
// row. `keep` has one number, or one for each row. With `preserve_columns` the number of columns
// and the phase stay, so that rings of one group stay aligned though their keeps differ.
// Refused: keeps beyond what was written, and a row that would lack keys which its next query sees
// (each write in place on a full ring destroyed one; so did each further block).
BatchedRing rollback_rotating_ring(const BatchedRing& ring, const Numbers& before, Numbers keep,
                                   bool preserve_columns = false);

}  // namespace gyre::oracles
