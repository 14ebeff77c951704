#include "oracles/mask.h"

#include <algorithm>

#include "oracles/require.h"

namespace gyre::oracles {
namespace {

Mask array_of(int64_t rows, int64_t queries, int64_t columns) {
  require(rows >= 0 && queries > 0 && columns > 0, "mask: sizes");
  Mask mask{MaskKind::array, rows, queries, columns, {}};
  mask.bits.assign(static_cast<size_t>(rows * queries * columns), 0);
  return mask;
}

uint8_t& bit(Mask& mask, int64_t row, int64_t query, int64_t column) {
  return mask.bits.at(static_cast<size_t>((row * mask.queries + query) * mask.columns + column));
}

}  // namespace

const char* name_of(MaskKind kind) {
  switch (kind) {
    case MaskKind::none:
      return "";
    case MaskKind::causal:
      return "causal";
    case MaskKind::array:
      return "array";
  }
  return "?";
}

bool Mask::sees(size_t row, int64_t query, int64_t column) const {
  require(static_cast<int64_t>(row) < rows && query >= 0 && query < queries && column >= 0 &&
              column < columns,
          "mask: a place that it has");
  if (kind == MaskKind::none) return true;
  if (kind == MaskKind::causal) return column <= columns - queries + query;
  const auto r = static_cast<int64_t>(row);
  return bits.at(static_cast<size_t>((r * queries + query) * columns + column)) != 0;
}

std::string Mask::text(size_t row, int64_t query) const {
  std::string out;
  for (int64_t column = 0; column < columns; ++column) out += sees(row, query, column) ? '1' : '0';
  return out;
}

Mask no_mask(int64_t rows, int64_t queries, int64_t columns) {
  return {MaskKind::none, rows, queries, columns, {}};
}

Mask causal_mask(int64_t rows, int64_t queries, int64_t columns) {
  return {MaskKind::causal, rows, queries, columns, {}};
}

Mask window_mask(int64_t offset, int64_t queries, std::optional<int64_t> window) {
  return padded_mask({0}, queries, offset + queries, window);
}

Mask plain_mask(int64_t offset, int64_t queries, std::optional<int64_t> window) {
  if (queries == 1) return no_mask(1, 1, offset + 1);
  if (offset == 0 && (!window || queries <= *window)) return causal_mask(1, queries, queries);
  return window_mask(offset, queries, window);
}

Mask padded_mask(const Numbers& left_pad, int64_t queries, int64_t columns,
                 std::optional<int64_t> window) {
  Mask mask = array_of(static_cast<int64_t>(left_pad.size()), queries, columns);
  const int64_t offset = columns - queries;
  for (int64_t row = 0; row < mask.rows; ++row)
    for (int64_t i = 0; i < queries; ++i)
      for (int64_t j = 0; j < columns; ++j)
        bit(mask, row, i, j) = j <= offset + i && j >= left_pad[static_cast<size_t>(row)] &&
                               (!window || offset + i < j + *window);
  return mask;
}

Mask batched_mask(const RotatingPosition& position, int64_t queries, int64_t window, bool block,
                  BlockRule rule) {
  check_position(position);
  require(block || queries == 1, "mask: several queries are a block");
  require(window > 0, "mask: a window of at least one token");
  const int64_t size = position.max_size, index = position.ring_index;
  const int64_t offset = std::min(size - 1, position.total_offset);
  const bool wrap = !block && (position.rotated || index >= size);
  const bool turned = position.rotated && block && rule == BlockRule::corrected;
  const int64_t held = turned ? size : index;
  const int64_t trim = std::max<int64_t>(0, held - size + (block ? 1 : 0));
  const int64_t shift = wrap ? (index >= size ? 0 : index) + 1 : 0;

  Mask mask = array_of(static_cast<int64_t>(position.offsets.size()), queries, offset + queries);
  for (int64_t row = 0; row < mask.rows; ++row) {
    const int64_t pad = position.left_pad[static_cast<size_t>(row)] - trim - (wrap ? 1 : 0);
    for (int64_t i = 0; i < queries; ++i)
      for (int64_t j = 0; j < mask.columns; ++j)
        bit(mask, row, i, (j + shift) % mask.columns) =
            j <= offset + i && offset + i < j + window && j >= pad;
  }
  return mask;
}

Tokens AttentionRead::visible(size_t row, int64_t query) const {
  require(mask.columns == keys.count(), "read: the mask has the columns that the append left");
  const Tokens& from = keys.row(row);
  Tokens out;
  for (int64_t column = 0; column < mask.columns; ++column)
    if (mask.sees(row, query, column)) out.push_back(from[static_cast<size_t>(column)]);
  return out;
}

}  // namespace gyre::oracles
