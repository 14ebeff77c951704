#include "oracles/layouts.h"

#include <algorithm>
#include <utility>

#include "oracles/require.h"

namespace gyre::oracles {

std::optional<size_t> RotatingPositions::batch_size() const {
  if (state_.batch_size() == 0) return std::nullopt;
  return state_.batch_size();
}

const Numbers* RotatingPositions::rope_offsets() const {
  return batch_size() ? &state_.snapshot().offsets : nullptr;
}

void RotatingPositions::sync(std::span<const AlignedRow> rows) {
  if (rows.empty()) return dispose();
  RotatingPosition position = combined_position(rows);
  require(position.max_size == state_.snapshot().max_size, "sync: rows of this window");
  state_.restore(std::move(position));
}

Mask RotatingPositions::make_mask(int64_t tokens, std::optional<int64_t> window) const {
  const RotatingPosition& at = state_.snapshot();
  return batched_mask(at, tokens, window.value_or(at.max_size),
                      tokens > 1 || state_.has_pending_padding());
}

void RotatingPositions::dispose() {
  state_ = BatchedRotatingState(state_.snapshot().max_size, {});
}

std::string RotatingLayout::signature() const {
  return SoloRing(max_size_, quantized_kind(bits_, group_)).signature();
}

std::optional<size_t> RotatingLayout::batch_size() const {
  if (!ring_ || ring_->batch_size() == 0) return std::nullopt;
  return ring_->batch_size();
}

int64_t RotatingLayout::minimum_reusable_offset() const {
  int64_t out = 0;
  for (const int64_t minimum : minimum_) out = std::max(out, minimum);
  return out;
}

std::unique_ptr<RotatingLayout> RotatingLayout::make_empty_batch() const {
  return std::make_unique<RotatingLayout>(max_size_, group_, bits_);
}

BatchedRing& RotatingLayout::held() {
  require(ring_.has_value(), "layout: rows");
  return *ring_;
}

bool RotatingLayout::is_unpadded() const {
  const Numbers pads = left_pad();
  return std::all_of(pads.begin(), pads.end(), [](int64_t pad) { return pad == 0; });
}

void RotatingLayout::adopt_aligned_rows(std::span<const AlignedRow> rows) {
  RotatingPosition position = combined_position(rows);
  require(position.max_size == max_size_, "adopt: rows of this window");
  std::vector<Tokens> columns;
  Numbers minimum;
  columns.reserve(rows.size());
  minimum.reserve(rows.size());
  for (const AlignedRow& row : rows) {
    require(row.ring().kind() == quantized_kind(bits_, group_),
            "adopt: rows quantized as the layout is");
    columns.push_back(row.ring().columns().row(0));
    minimum.push_back(row.minimum_reusable_offset);
  }
  ring_ = BatchedRing::adopt_physical(Columns(std::move(columns)), quantized_kind(bits_, group_),
                                      std::move(position));
  minimum_ = std::move(minimum);
}

void RotatingLayout::collect(const Source& source, std::vector<SoloRing>& owned) const {
  if (const auto* layout = std::get_if<const RotatingLayout*>(&source)) {
    const size_t rows = (*layout)->batch_size().value_or(0);
    for (size_t row = 0; row < rows; ++row) owned.push_back((*layout)->extract_row(row));
  } else if (const auto* row = std::get_if<const AlignedRow*>(&source)) {
    owned.push_back((*row)->extract());
  } else {
    owned.push_back(*std::get<const SoloRing*>(source));
  }
}

void RotatingLayout::merge_rows(std::span<const Source> rows) {
  std::vector<SoloRing> owned;
  for (const Source& source : rows) collect(source, owned);
  if (owned.empty()) return dispose();
  adopt_aligned_rows(align_rotating_rows(owned));
}

void RotatingLayout::filter_rows(const std::vector<size_t>& keep) {
  held().filter_rows(keep);
  Numbers minimum;
  minimum.reserve(keep.size());
  for (const size_t row : keep) minimum.push_back(minimum_[row]);
  minimum_ = std::move(minimum);
}

SoloRing RotatingLayout::extract(size_t row, std::optional<int64_t> limit) const {
  require(ring_.has_value(), "layout: rows");
  SoloRing out =
      ring_->extract_row(row, limit).value_or(SoloRing(max_size_, quantized_kind(bits_, group_)));
  out.minimum_reusable_offset = minimum_[row];
  return out;
}

void RotatingLayout::dispose() {
  ring_.reset();
  before_.reset();
  minimum_.clear();
}

Mask RotatingLayout::make_mask(int64_t tokens, std::optional<int64_t> window) const {
  require(ring_.has_value(), "layout: rows");
  return ring_->make_mask(tokens, window);
}

AttentionRead RotatingLayout::append_decode(const std::vector<Tokens>& tokens) {
  return held().append_decode(tokens);
}

AttentionRead RotatingLayout::append_window(const std::vector<Tokens>& tokens) {
  return held().append_window(tokens);
}

std::vector<AttentionRead> RotatingLayout::append_committed(const std::vector<Tokens>& tokens) {
  require(!tokens.empty(), "append_committed: tokens");
  std::vector<AttentionRead> reads;
  for (size_t i = 0; i < tokens[0].size(); ++i) {
    std::vector<Tokens> one;
    one.reserve(tokens.size());
    for (const Tokens& row : tokens) one.push_back({row.at(i)});
    reads.push_back(append_decode(one));
  }
  return reads;
}

bool RotatingLayout::is_trimmable() const {
  require(ring_.has_value(), "layout: rows");
  return ring_->is_trimmable();
}

void RotatingLayout::spec_round_rollback(const Numbers& keep) {
  require(before_.has_value(), "rollback: a round that was begun");
  ring_ = rollback_rotating_ring(held(), *before_, keep);
  before_.reset();
}

std::unique_ptr<RotatingLayout> SpeculativeRotatingLayout::make_empty_batch() const {
  return std::make_unique<SpeculativeRotatingLayout>(max_size(), group(), bits());
}

Mask SpeculativeRotatingLayout::make_mask(int64_t tokens, std::optional<int64_t> window) const {
  const int64_t room = std::min(max_size(), window.value_or(max_size()));
  if (is_unpadded() && offset() + tokens <= room) {
    const auto rows = static_cast<int64_t>(batch_size().value_or(0));
    const int64_t columns = offset() + tokens;
    return tokens == 1 ? no_mask(rows, 1, columns) : causal_mask(rows, tokens, columns);
  }
  return RotatingLayout::make_mask(tokens, window);
}

AttentionRead SpeculativeRotatingLayout::append_window(const std::vector<Tokens>& tokens) {
  require(!tokens.empty() && !tokens[0].empty(), "append_window: tokens");
  const auto count = static_cast<int64_t>(tokens[0].size());
  if (!is_unpadded() || offset() + count > max_size()) return RotatingLayout::append_window(tokens);
  BatchedRing& ring = held();
  const auto rows = static_cast<int64_t>(ring.batch_size());
  AttentionRead read = ring.append_window_under(tokens, causal_mask(rows, count, offset() + count));
  read.kernel = ReadKernel::causal_window;
  return read;
}

}  // namespace gyre::oracles
