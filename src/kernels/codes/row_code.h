// How a row of K or V is stored: one head's values of one position.
//
// A row is self-contained, so that quantising is a pure function of that row. Bytes and layouts:
// docs/formats/kv.md. Values, no state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"

namespace gyre::kernels {

enum class CodeKind : uint8_t {
  bf16,
  f32,     // the oracle mode of the reference, tests only
  affine,  // integers in groups with a bf16 scale and bias each (affine.h)
  turbo,   // rotated, indices into a codebook, one f32 scale (turbo.h)
};

// The group of a grouped turbo row; the last group of a row may be shorter.
inline constexpr uint32_t kTurboGroup = 64;

struct RowCode {
  CodeKind kind = CodeKind::bf16;
  uint32_t bits = 16;
  uint32_t group = 0;  // values that share a scale; turbo: 0 = the whole row, or kTurboGroup

  bool operator==(const RowCode&) const = default;
  // Groups of a row of `dim` values, the last one perhaps short; 0 of a row without groups.
  uint32_t groups(uint32_t dim) const { return group == 0 ? 0 : (dim + group - 1) / group; }
  // Bytes of a row of `dim` values that check_row() accepts.
  size_t row_bytes(uint32_t dim) const;
};

// K and V of one layer.
struct LayerCode {
  RowCode k, v;
  bool rotated = false;   // bf16 rows are rotated before they are rounded: an anchored row's page 0
  bool anchored = false;  // K codes hold k minus the anchor, the mean of page 0's keys
  bool operator==(const LayerCode&) const = default;
  bool plain() const { return k.kind == CodeKind::bf16 && v.kind == CodeKind::bf16 && !rotated; }
};
inline constexpr LayerCode kBf16Code{};
inline constexpr LayerCode kF32Code{{CodeKind::f32, 32, 0}, {CodeKind::f32, 32, 0}, false, false};

// Bits 2, 3, 4, 5, 6, 8 of affine and turbo rows; groups 32, 64, 128.
bool is_code_bits(uint64_t bits);
bool is_code_group(uint64_t group);

// Can rows of `dim` values be stored so? Affine: the group divides `dim`. Turbo: `dim` is a
// multiple of 8, 32 to 1024, and the group 0 or kTurboGroup. Errors: unsupported, beginning with
// `what`.
Status check_row(const RowCode& code, uint32_t dim, const std::string& what);

}  // namespace gyre::kernels
