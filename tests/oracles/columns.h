// What stands in a ring's columns: names of tokens in place of keys and values.
//
// Rows x columns, as a ring's planes are. A column that holds no token of the row is kNoToken; a
// test that reads one sees the mistake.
#pragma once

#include <cstdint>
#include <vector>

#include "oracles/position.h"

namespace gyre::oracles {

using Token = int64_t;
inline constexpr Token kNoToken = -1;
using Tokens = std::vector<Token>;

class Columns {
 public:
  Columns() = default;
  explicit Columns(size_t rows) : rows_(rows) {}
  explicit Columns(std::vector<Tokens> rows);

  size_t rows() const { return rows_.size(); }
  int64_t count() const { return rows_.empty() ? 0 : static_cast<int64_t>(rows_[0].size()); }
  const Tokens& row(size_t row) const;
  bool operator==(const Columns&) const = default;

  void apply(const OneTokenWrite& plan, const std::vector<Tokens>& tokens);
  void apply(const BlockWrite& plan, const std::vector<Tokens>& tokens);
  // Moves each row right by its number within the first `live` columns; what falls out is forgotten
  // and what comes in is nobody's.
  void shift_right(const Numbers& shifts, int64_t live);
  void roll_left(int64_t by);
  void keep_first(int64_t count);
  void drop_first(int64_t count);
  void filter(const std::vector<size_t>& keep);

 private:
  std::vector<Tokens> rows_;
};

}  // namespace gyre::oracles
