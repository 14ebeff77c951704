#include "oracles/columns.h"

#include <algorithm>
#include <utility>

#include "oracles/require.h"

namespace gyre::oracles {

Columns::Columns(std::vector<Tokens> rows) : rows_(std::move(rows)) {
  for (const Tokens& row : rows_)
    require(row.size() == rows_[0].size(), "columns: as many in every row");
}

const Tokens& Columns::row(size_t row) const {
  require(row < rows_.size(), "columns: a row that exists");
  return rows_[row];
}

void Columns::apply(const OneTokenWrite& plan, const std::vector<Tokens>& tokens) {
  require(tokens.size() == rows(), "write: tokens for every row");
  for (size_t r = 0; r < rows(); ++r) {
    require(tokens[r].size() == 1, "write: one token for every row");
    Tokens& row = rows_[r];
    row.insert(row.end(), static_cast<size_t>(plan.grow), kNoToken);
    row.erase(row.begin(), row.begin() + plan.drop);
    row.at(static_cast<size_t>(plan.column)) = tokens[r][0];
  }
}

void Columns::apply(const BlockWrite& plan, const std::vector<Tokens>& tokens) {
  require(tokens.size() == rows(), "write: tokens for every row");
  roll_left(plan.roll_left);
  keep_first(plan.live);
  if (!plan.row_rolls.empty()) shift_right(plan.row_rolls, count());
  drop_first(plan.drop);
  for (size_t r = 0; r < rows(); ++r) {
    require(tokens[r].size() == tokens[0].size(), "write: as many tokens in every row");
    rows_[r].insert(rows_[r].end(), tokens[r].begin(), tokens[r].end());
  }
}

void Columns::shift_right(const Numbers& shifts, int64_t live) {
  require(shifts.size() == rows(), "shift: one number for every row");
  require(live >= 0 && live <= count(), "shift: columns that exist");
  for (size_t r = 0; r < rows(); ++r) {
    Tokens& row = rows_[r];
    require(shifts[r] >= 0 && shifts[r] <= live, "shift: within the live columns");
    std::move_backward(row.begin(), row.begin() + (live - shifts[r]), row.begin() + live);
    std::fill(row.begin(), row.begin() + shifts[r], kNoToken);
  }
}

void Columns::roll_left(int64_t by) {
  require(by >= 0 && by <= count(), "roll: within the columns");
  for (Tokens& row : rows_) std::rotate(row.begin(), row.begin() + by, row.end());
}

void Columns::keep_first(int64_t count) {
  require(count >= 0 && count <= this->count(), "keep: columns that exist");
  for (Tokens& row : rows_) row.resize(static_cast<size_t>(count));
}

void Columns::drop_first(int64_t count) {
  require(count >= 0 && count <= this->count(), "drop: columns that exist");
  for (Tokens& row : rows_) row.erase(row.begin(), row.begin() + count);
}

void Columns::filter(const std::vector<size_t>& keep) {
  std::vector<Tokens> kept;
  kept.reserve(keep.size());
  for (const size_t r : keep) kept.push_back(row(r));
  rows_ = std::move(kept);
}

}  // namespace gyre::oracles
