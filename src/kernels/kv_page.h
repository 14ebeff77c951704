// Where the values, codes and factors of one head lie inside a page (docs/formats/kv.md).
//
// A page's K and V of one head are the bytes of its 64 rows, arranged for the kernels: every bit of
// a position lies in bytes that no other position uses, so that threads may store neighbours. A
// code of 3, 5 or 6 bits is cut in two planes. Scalar; the truth that a kernel's reads and writes
// must equal. No state; callers own all memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/attention.h"

namespace gyre::kernels {

enum class Side : uint8_t { k, v };

// The parts of a code, the lowest bits first.
struct Planes {
  uint32_t count, width[2];
};
constexpr Planes planes(uint32_t bits) {
  switch (bits) {
    case 3:
      return {2, {2, 1}};
    case 5:
      return {2, {4, 1}};
    case 6:
      return {2, {4, 2}};
    default:
      return {1, {bits, 0}};  // 2, 4, 8
  }
}

// Index of element (position, d) in one head's plain K or V.
constexpr size_t k_index(uint32_t position, uint32_t d, uint32_t k_dim) {
  return size_t{position / 16} * k_dim * 16 + size_t{d / 2} * 32 + position % 16 * 2 + d % 2;
}
constexpr size_t v_index(uint32_t position, uint32_t d, uint32_t v_dim) {
  return (size_t{position / 2} * v_dim + d) * 2 + position % 2;
}

// One coded row, as codes/ packs it, to and from its place in a head's K or V.
void put_row(Side side, const RowCode& code, uint32_t dim, std::byte* head, uint32_t position,
             const std::byte* row);
void get_row(Side side, const RowCode& code, uint32_t dim, const std::byte* head, uint32_t position,
             std::byte* row);

}  // namespace gyre::kernels
