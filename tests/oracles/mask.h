// Which columns a query sees, as the documents' masks say it.
//
// A mask is "" (all columns), "causal" (query i of n sees the columns up to columns - n + i: the
// last query sees all), or an array [rows, queries, columns]. Windows are in tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "oracles/columns.h"
#include "oracles/position.h"

namespace gyre::oracles {

enum class MaskKind : uint8_t { none, causal, array };

// The documents' strings: "", "causal", "array".
const char* name_of(MaskKind kind);

struct Mask {
  MaskKind kind = MaskKind::none;
  int64_t rows = 0, queries = 0, columns = 0;
  std::vector<uint8_t> bits;  // array only: [rows][queries][columns]

  bool sees(size_t row, int64_t query, int64_t column) const;
  std::string text(size_t row, int64_t query) const;  // "001110"
  bool operator==(const Mask&) const = default;
};

Mask no_mask(int64_t rows, int64_t queries, int64_t columns);
Mask causal_mask(int64_t rows, int64_t queries, int64_t columns);

// Query i sees column j iff j <= offset + i, and offset + i < j + window if any. Always an array.
Mask window_mask(int64_t offset, int64_t queries, std::optional<int64_t> window);
// The same for a plain cache, abbreviated where nothing else than causality cuts.
Mask plain_mask(int64_t offset, int64_t queries, std::optional<int64_t> window);
// Rows that share one left-padded buffer of `columns` columns, the queries' own included.
Mask padded_mask(const Numbers& left_pad, int64_t queries, int64_t columns,
                 std::optional<int64_t> window);

// How a block's mask on a rotated ring counts the columns that the write will drop. The ancestor
// takes the ring index, where a rotated ring has max_size columns: it hides a key of rows that
// still have left padding.
enum class BlockRule : uint8_t { corrected, ancestor };

// A batched ring, before the write. `block`: more than one token, or a padded prefill pending.
Mask batched_mask(const RotatingPosition& position, int64_t queries, int64_t window, bool block,
                  BlockRule rule = BlockRule::corrected);

// What an append answers: the columns as they stand after it, and who sees them.
enum class ReadKernel : uint8_t { decode, masked_window, causal_window };
struct AttentionRead {
  Mask mask;
  Columns keys;
  ReadKernel kernel = ReadKernel::decode;

  // The tokens that a query sees, in the order of the columns.
  Tokens visible(size_t row, int64_t query) const;
};

}  // namespace gyre::oracles
