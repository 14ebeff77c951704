// One request in its group's geometry, and the alignment of several requests to one.
//
// Rows that cross from plain to quantized storage at different times keep rings of their own; all
// have the same max_size, total offset, ring index and phase, so one mask serves them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "oracles/batched_ring.h"
#include "oracles/solo_ring.h"

namespace gyre::oracles {

// A ring of exactly one row.
class AlignedRow {
 public:
  explicit AlignedRow(BatchedRing ring);

  const BatchedRing& ring() const { return ring_; }
  int64_t offset() const { return ring_.valid_offset(0); }
  bool can_convert() const { return ring_.kind().is_plain(); }
  bool is_quantized() const { return ring_.kind().is_quantized(); }
  // By the group's physical total: once the widest row fills the window, no row is trimmable.
  bool is_trimmable() const { return ring_.is_trimmable(); }
  std::string signature() const { return ring_.signature(); }
  Mask make_mask(int64_t tokens, std::optional<int64_t> window = {}) const {
    return ring_.make_mask(tokens, window);
  }

  AttentionRead append(const Tokens& tokens) { return ring_.append_window({tokens}); }
  void trim(int64_t tokens) { ring_.trim(tokens); }
  void rollback(int64_t before, int64_t keep, bool preserve_columns);
  // A request of its own again, its newest `limit` tokens; the floor goes along.
  SoloRing extract(std::optional<int64_t> limit = {}) const;
  // Same columns, same position, same floor. Plain and not empty.
  AlignedRow to_quantized(uint32_t group, uint32_t bits) const;

  int64_t minimum_reusable_offset = 0;

 private:
  BatchedRing ring_;
};

// The position that a solo ring stands in as a ring of one row.
RotatingPosition rotating_source_position(const SoloRing& row);

// Takes the rows over (`rows` is empty afterwards), or throws and leaves them. One row keeps its
// columns, phase and order. Several get one geometry: temporal order, padded at the left to the
// widest. Their windows must agree.
std::vector<AlignedRow> align_rotating_rows(std::vector<SoloRing>& rows);

// One record for rows that are aligned: checked, where the documents assume it.
RotatingPosition combined_position(std::span<const AlignedRow> rows);

}  // namespace gyre::oracles
