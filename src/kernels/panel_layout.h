// Where the parts of a weight format lie inside a panel (docs/formats/panels.md).
//
// A panel holds 16 rows, cut along K in segments of 256. A segment is a list of fields; a field
// holds, for each block of the segment, `units` units of `unit` bytes, each unit 16 times (one per
// row). So a panel is the file's bytes transposed: a unit of 4 bytes gives a line of 64.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/linear.h"
#include "tensor/dtype.h"

namespace gyre::kernels {

enum class FieldKind : uint8_t {
  copy,   // the file's bytes
  flip,   // signed bytes plus 128
  masks,  // 4 bytes of bits for 32 codes -> 8 words of 64 bits, bit 4 * row + i for code 4 * j + i
};

struct PanelField {
  uint16_t file_offset;  // in the file's block
  uint16_t units;
  uint8_t unit;
  FieldKind kind = FieldKind::copy;
  constexpr size_t bytes() const { return size_t{kPanelRows} * units * unit; }  // of one block
};

struct PanelLayout {
  uint32_t block;  // elements of a file block: 32 or 256
  int count;       // fields
  PanelField fields[4];
  // The last field is half a line: two segments share one line, which follows the even segment.
  bool paired_tail = false;
};

constexpr PanelLayout panel_layout(DType dtype) {
  switch (dtype) {
    case DType::q4_0:
    case DType::iq4_nl:
      return {32, 2, {{2, 4, 4}, {0, 1, 2}}};
    case DType::q4_1:
      return {32, 3, {{4, 4, 4}, {0, 1, 2}, {2, 1, 2}}};
    case DType::q5_0:
      return {32, 3, {{6, 4, 4}, {2, 1, 4, FieldKind::masks}, {0, 1, 2}}};
    case DType::q5_1:
      return {32, 4, {{8, 4, 4}, {4, 1, 4, FieldKind::masks}, {0, 1, 2}, {2, 1, 2}}};
    case DType::q8_0:
      return {32, 2, {{2, 8, 4, FieldKind::flip}, {0, 1, 2}}};
    case DType::mxfp4:
      return {32, 2, {{1, 4, 4}, {0, 1, 1}}};
    case DType::q2_k:
      return {256, 3, {{16, 16, 4}, {0, 4, 4}, {80, 2, 2}}};
    case DType::q3_k:
      return {256, 4, {{32, 16, 4}, {0, 8, 4}, {96, 3, 4}, {108, 1, 2}}, true};
    case DType::q4_k:
      return {256, 3, {{16, 32, 4}, {4, 3, 4}, {0, 2, 2}}};
    case DType::q5_k:
      return {256, 4, {{48, 32, 4}, {16, 8, 4}, {4, 3, 4}, {0, 2, 2}}};
    case DType::q6_k:
      return {256, 4, {{0, 32, 4}, {128, 16, 4}, {192, 4, 4}, {208, 1, 2}}, true};
    case DType::iq4_xs:
      return {256, 4, {{8, 32, 4}, {4, 1, 4}, {2, 1, 2}, {0, 1, 2}}};
    case DType::f32:
    case DType::f16:
    case DType::bf16:
      break;  // plain: see panels.cc
  }
  return {0, 0, {}};
}

constexpr size_t whole_lines(size_t bytes) {
  return (bytes + 63) / 64 * 64;
}

// From the start of a segment of `blocks` 32-wide blocks (1 .. 8) to field `f`.
constexpr size_t field_offset(const PanelLayout& layout, int f, uint32_t blocks) {
  size_t offset = 0;
  for (int i = 0; i < f; ++i) {
    const size_t bytes = layout.fields[i].bytes();
    offset += layout.block == kSegment ? bytes : whole_lines(blocks * bytes);
  }
  return offset;
}

// From the start of the panel to segment `s`.
constexpr size_t segment_offset(const PanelLayout& layout, uint32_t s) {
  constexpr uint32_t kBlocks = kSegment / kActBlock;
  const int fields = layout.count - (layout.paired_tail ? 1 : 0);
  const size_t pairs = layout.paired_tail ? (size_t{s} + 1) / 2 * 64 : 0;
  return s * field_offset(layout, fields, kBlocks) + pairs;
}

// From the start of segment `s` to the last field of a layout with a paired tail.
constexpr ptrdiff_t paired_tail_offset(const PanelLayout& layout, uint32_t s) {
  if (s % 2 != 0) return -32;
  return static_cast<ptrdiff_t>(field_offset(layout, layout.count - 1, 0));
}

}  // namespace gyre::kernels
