#include "oracles/aligned_rows.h"

#include <algorithm>
#include <utility>

#include "oracles/require.h"

namespace gyre::oracles {
namespace {

void check_adoptable(const SoloRing& row) {
  require(row.kind().form != RowKind::Form::foreign,
          "rotating layout cannot adopt " + row.signature());
}

int64_t window_length(const SoloRing& row) {
  return std::min(row.offset(), row.max_size());
}

AlignedRow adopt_alone(const SoloRing& row) {
  AlignedRow out(BatchedRing::adopt_physical(Columns({row.stored()}), row.kind(),
                                             rotating_source_position(row)));
  out.minimum_reusable_offset = row.minimum_reusable_offset;
  return out;
}

AlignedRow align_one(const SoloRing& row, int64_t width) {
  Tokens columns = row.temporal();
  const auto live = static_cast<int64_t>(columns.size());
  columns.erase(columns.begin(), columns.begin() + std::max<int64_t>(0, live - window_length(row)));
  // A full ring that lost its newest column for good has window - 1 of them; the missing one is
  // padding, so that the planes of all rows have one width.
  const int64_t pad = width - static_cast<int64_t>(columns.size());
  columns.insert(columns.begin(), static_cast<size_t>(pad), kNoToken);

  RotatingPosition position;
  position.max_size = row.max_size();
  position.offsets = {row.offset()};
  position.left_pad = {pad};
  position.total_offset = position.ring_index = width;
  AlignedRow out(BatchedRing::adopt_physical(Columns({std::move(columns)}), row.kind(), position));
  out.minimum_reusable_offset = row.minimum_reusable_offset;
  return out;
}

}  // namespace

AlignedRow::AlignedRow(BatchedRing ring) : ring_(std::move(ring)) {
  require(ring_.batch_size() == 1, "aligned row: a ring of one row");
}

void AlignedRow::rollback(int64_t before, int64_t keep, bool preserve_columns) {
  ring_ = rollback_rotating_ring(ring_, {before}, {keep}, preserve_columns);
}

SoloRing AlignedRow::extract(std::optional<int64_t> limit) const {
  SoloRing out = ring_.extract_row(0, limit).value_or(SoloRing(ring_.max_size(), ring_.kind()));
  out.minimum_reusable_offset = minimum_reusable_offset;
  return out;
}

AlignedRow AlignedRow::to_quantized(uint32_t group, uint32_t bits) const {
  AlignedRow out(ring_.to_quantized(group, bits));
  out.minimum_reusable_offset = minimum_reusable_offset;
  return out;
}

RotatingPosition rotating_source_position(const SoloRing& row) {
  RotatingPosition position;
  position.max_size = row.max_size();
  position.offsets = {row.offset()};
  position.left_pad = {0};
  position.total_offset = row.offset();
  position.ring_index = row.index();
  position.rotated =
      row.index() < row.offset() && row.index() < static_cast<int64_t>(row.stored().size());
  return position;
}

std::vector<AlignedRow> align_rotating_rows(std::vector<SoloRing>& rows) {
  int64_t width = 0;
  for (const SoloRing& row : rows) {
    check_adoptable(row);
    require(row.max_size() == rows[0].max_size(), "align: rows of one window");
    width = std::max(width, window_length(row));
  }
  std::vector<AlignedRow> out;
  out.reserve(rows.size());
  for (const SoloRing& row : rows)
    out.push_back(rows.size() == 1 ? adopt_alone(row) : align_one(row, width));
  rows.clear();
  return out;
}

RotatingPosition combined_position(std::span<const AlignedRow> rows) {
  require(!rows.empty(), "combine: at least one row");
  RotatingPosition out = rows[0].ring().position();
  for (const AlignedRow& row : rows.subspan(1)) {
    const RotatingPosition& other = row.ring().position();
    require(other.max_size == out.max_size && other.total_offset == out.total_offset &&
                other.ring_index == out.ring_index && other.rotated == out.rotated &&
                row.ring().columns().count() == rows[0].ring().columns().count(),
            "combine: rows in one geometry");
    require(other.prefill_ends.has_value() == out.prefill_ends.has_value(),
            "combine: a padded prefill of all rows or of none");
    out.offsets.push_back(other.offsets[0]);
    out.left_pad.push_back(other.left_pad[0]);
    if (out.prefill_ends) out.prefill_ends->push_back((*other.prefill_ends)[0]);
  }
  return out;
}

}  // namespace gyre::oracles
