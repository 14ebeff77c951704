// A group of rows: positions alone while rows differ in storage, one ring once all are quantized,
// and the speculative variant of that.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "oracles/aligned_rows.h"
#include "oracles/batched_ring.h"
#include "oracles/mask.h"
#include "oracles/position.h"
#include "oracles/solo_ring.h"

namespace gyre::oracles {

// Positions and masks of a group whose rows hold rings of their own.
class RotatingPositions {
 public:
  explicit RotatingPositions(int64_t max_size) : state_(max_size, {}) {}

  const Numbers& row_offsets() const { return state_.snapshot().offsets; }
  const Numbers& left_pad() const { return state_.snapshot().left_pad; }
  int64_t offset() const { return state_.snapshot().total_offset; }
  std::optional<size_t> batch_size() const;
  const Numbers* rope_offsets() const;  // null without rows
  const RotatingPosition& position() const { return state_.snapshot(); }

  // After every write: the rows advance, not this object.
  void sync(std::span<const AlignedRow> rows);
  void filter_rows(const std::vector<size_t>& keep) { state_.filter(keep); }
  // Always an array, whatever could be abbreviated.
  Mask make_mask(int64_t tokens, std::optional<int64_t> window = {}) const;
  void dispose();

 private:
  BatchedRotatingState state_;
};

class RotatingLayout {
 public:
  RotatingLayout(int64_t max_size, uint32_t group, uint32_t bits)
      : max_size_(max_size), group_(group), bits_(bits) {}
  virtual ~RotatingLayout() = default;

  int64_t max_size() const { return max_size_; }
  int64_t max_tokens() const { return max_size_; }
  std::string signature() const;
  const BatchedRing* ring() const { return ring_ ? &*ring_ : nullptr; }
  Numbers row_offsets() const { return ring_ ? ring_->position().offsets : Numbers(); }
  Numbers left_pad() const { return ring_ ? ring_->position().left_pad : Numbers(); }
  int64_t offset() const { return ring_ ? ring_->position().total_offset : 0; }
  std::optional<size_t> batch_size() const;
  int64_t minimum_reusable_offset() const;  // the largest of the rows'
  virtual std::unique_ptr<RotatingLayout> make_empty_batch() const;

  // Borrow the rows. All must be quantized as this layout is; no column moves.
  void adopt_aligned_rows(std::span<const AlignedRow> rows);
  // Rows of solo rings, of aligned rows and of whole layouts (this one too); the inputs stay. No
  // row at all empties the layout.
  using Source = std::variant<const SoloRing*, const AlignedRow*, const RotatingLayout*>;
  void merge_rows(std::span<const Source> rows);
  void filter_rows(const std::vector<size_t>& keep);
  virtual SoloRing extract_row(size_t row) const { return extract(row, {}); }
  void dispose();

  // From here on: invalid without rows.
  virtual Mask make_mask(int64_t tokens, std::optional<int64_t> window = {}) const;
  AttentionRead append_decode(const std::vector<Tokens>& tokens);
  virtual AttentionRead append_window(const std::vector<Tokens>& tokens);
  // A span, one decode for each position: a read for each.
  std::vector<AttentionRead> append_committed(const std::vector<Tokens>& tokens);
  void prepare_prefill(const Numbers& lengths) { held().prepare_prefill(lengths); }
  void finalize_prefill() { held().finalize_prefill(); }
  bool is_trimmable() const;
  void trim(int64_t tokens) { held().trim(tokens); }

  void spec_round_begin() { before_ = row_offsets(); }
  void spec_round_commit() { before_.reset(); }
  void spec_round_rollback(const Numbers& keep);

 protected:
  uint32_t group() const { return group_; }
  uint32_t bits() const { return bits_; }
  SoloRing extract(size_t row, std::optional<int64_t> limit) const;
  BatchedRing& held();
  bool is_unpadded() const;

 private:
  void collect(const Source& source, std::vector<SoloRing>& owned) const;

  int64_t max_size_;
  uint32_t group_, bits_;
  std::optional<BatchedRing> ring_;
  std::optional<Numbers> before_;
  Numbers minimum_;
};

// A plain causal mask while no row is padded and the window has room; checkpoints of at most
// max_size tokens.
class SpeculativeRotatingLayout : public RotatingLayout {
 public:
  using RotatingLayout::RotatingLayout;

  std::unique_ptr<RotatingLayout> make_empty_batch() const override;
  Mask make_mask(int64_t tokens, std::optional<int64_t> window = {}) const override;
  // Looks at max_size alone, where make_mask also looks at the window: callers give both the same.
  AttentionRead append_window(const std::vector<Tokens>& tokens) override;
  SoloRing extract_row(size_t row) const override { return extract(row, max_size()); }
};

}  // namespace gyre::oracles
