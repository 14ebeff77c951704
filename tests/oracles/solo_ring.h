// One request's rotating cache, as it stands alone: columns, true offset, next column.
//
// Written apart from BatchedRotatingState on purpose: each is the check of the other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "oracles/columns.h"
#include "oracles/mask.h"

namespace gyre::oracles {

// How a ring stores its rows. The arithmetic does not depend on it; alignment carries it along.
// `foreign` stands for a cache that no ring can adopt.
struct RowKind {
  enum class Form : uint8_t { plain, quantized, foreign };
  Form form = Form::plain;
  uint32_t bits = 0, group = 0;  // quantized

  bool is_plain() const { return form == Form::plain; }
  bool is_quantized() const { return form == Form::quantized; }
  bool operator==(const RowKind&) const = default;
};
inline RowKind quantized_kind(uint32_t bits, uint32_t group) {
  return {RowKind::Form::quantized, bits, group};
}

class SoloRing {
 public:
  explicit SoloRing(int64_t max_size, RowKind kind = {});
  // As a batch hands a row out: its live columns in temporal order.
  static SoloRing from_temporal(int64_t max_size, RowKind kind, Tokens columns, int64_t offset);

  int64_t max_size() const { return max_size_; }
  int64_t offset() const { return offset_; }
  int64_t index() const { return index_; }
  RowKind kind() const { return kind_; }
  const Tokens& stored() const { return columns_; }
  std::string signature() const;

  // Rotating(max_size): "" for one token, else causal or, where a window cuts, an array.
  Mask make_mask(int64_t tokens, std::optional<int64_t> window = {}) const;
  AttentionRead append(const Tokens& tokens);

  Tokens temporal() const;  // live columns, oldest first
  bool is_trimmable() const { return offset_ < max_size_; }
  void trim(int64_t tokens);
  // After a block only: cuts the newest columns for good, whatever the offset.
  void trim_block(int64_t tokens);

  int64_t minimum_reusable_offset = 0;

 private:
  void write_one(Token token);
  void write_block(const Tokens& tokens);
  Tokens fetched() const;

  int64_t max_size_, offset_ = 0, index_ = 0;
  RowKind kind_;
  Tokens columns_;
};

// The longest prefix of a stored entry that a prompt may reuse, 0 = none. An entry longer than that
// must be trimmed to it, and none is trimmed below its floor.
int64_t reusable_prefix(int64_t common, int64_t prompt, int64_t stored, bool trimmable,
                        int64_t minimum_reusable_offset);

}  // namespace gyre::oracles
