// Packing rows into panels, and reading a row back.
#include <algorithm>
#include <cstring>

#include "kernels/linear.h"
#include "kernels/panel_layout.h"
#include "numerics/half.h"
#include "quant/rows.h"

namespace gyre::kernels {
namespace {

constexpr uint32_t kSegmentBlocks = kSegment / kActBlock;

bool is_plain(DType dtype) {
  return info(dtype).block == 1;
}

uint32_t segments_of(uint32_t cols) {
  return (cols + kSegment - 1) / kSegment;
}

// 32-wide blocks in segment s.
uint32_t blocks_in(uint32_t cols, uint32_t s) {
  return std::min(kSegmentBlocks, cols / kActBlock - s * kSegmentBlocks);
}

size_t offset_of(const PanelLayout& layout, int f, uint32_t segment, uint32_t blocks) {
  const size_t start = segment_offset(layout, segment);
  if (layout.paired_tail && f == layout.count - 1)
    return start + static_cast<size_t>(paired_tail_offset(layout, segment));
  return start + field_offset(layout, f, blocks);
}

// One row's units of one block, file <-> field; `lane` is the field at this row.
template <class Unit>
void scatter(const std::byte* file, const PanelField& field, std::byte* lane) {
  for (uint32_t u = 0; u < field.units; ++u)
    std::memcpy(lane + u * kPanelRows * sizeof(Unit), file + u * sizeof(Unit), sizeof(Unit));
}
template <class Unit>
void gather(const std::byte* lane, const PanelField& field, std::byte* file) {
  for (uint32_t u = 0; u < field.units; ++u)
    std::memcpy(file + u * sizeof(Unit), lane + u * kPanelRows * sizeof(Unit), sizeof(Unit));
}

void scatter_flipped(const std::byte* file, const PanelField& field, std::byte* lane) {
  for (uint32_t u = 0; u < field.units; ++u) {
    uint32_t word;
    std::memcpy(&word, file + 4 * u, 4);
    word ^= 0x80808080u;
    std::memcpy(lane + u * kPanelRows * 4, &word, 4);
  }
}

void scatter_masks(const std::byte* file, uint32_t row, std::byte* masks) {
  uint32_t bits;
  std::memcpy(&bits, file, 4);
  for (uint32_t j = 0; j < 8; ++j) {
    uint64_t mask;
    std::memcpy(&mask, masks + 8 * j, 8);
    mask |= uint64_t{(bits >> (4 * j)) & 15} << (4 * row);
    std::memcpy(masks + 8 * j, &mask, 8);
  }
}

void gather_masks(const std::byte* masks, uint32_t row, std::byte* file) {
  uint32_t bits = 0;
  for (uint32_t j = 0; j < 8; ++j) {
    uint64_t mask;
    std::memcpy(&mask, masks + 8 * j, 8);
    bits |= static_cast<uint32_t>((mask >> (4 * row)) & 15) << (4 * j);
  }
  std::memcpy(file, &bits, 4);
}

void scatter_field(const std::byte* file, const PanelField& field, uint32_t row, std::byte* to) {
  if (field.kind == FieldKind::masks) return scatter_masks(file, row, to);
  std::byte* lane = to + row * field.unit;
  if (field.kind == FieldKind::flip) return scatter_flipped(file, field, lane);
  if (field.unit == 4) return scatter<uint32_t>(file, field, lane);
  if (field.unit == 2) return scatter<uint16_t>(file, field, lane);
  scatter<uint8_t>(file, field, lane);
}

void gather_field(const std::byte* from, const PanelField& field, uint32_t row, std::byte* file) {
  if (field.kind == FieldKind::masks) return gather_masks(from, row, file);
  const std::byte* lane = from + row * field.unit;
  if (field.unit == 4) gather<uint32_t>(lane, field, file);
  if (field.unit == 2) gather<uint16_t>(lane, field, file);
  if (field.unit == 1) gather<uint8_t>(lane, field, file);
  if (field.kind == FieldKind::flip) {
    for (uint32_t i = 0; i < field.units * 4u; ++i) file[i] ^= std::byte{0x80};
  }
}

// One row of a plain type; an element of bf16 is half a unit of a pair.
template <class Element>
void scatter_plain(const std::byte* row, uint32_t cols, uint32_t lane, std::byte* panel) {
  for (uint32_t k = 0; k < cols; ++k)
    std::memcpy(panel + (size_t{k} * kPanelRows + lane) * sizeof(Element),
                row + k * sizeof(Element), sizeof(Element));
}

std::byte* bf16_element(std::byte* panel, uint32_t lane, uint32_t k) {
  return panel + (size_t{k} / 2 * kPanelRows + lane) * 4 + k % 2 * 2;
}

uint16_t bf16_operand_at(const std::byte* row, uint32_t k) {
  uint16_t h;
  std::memcpy(&h, row + 2 * size_t{k}, 2);
  return f32_to_bf16_operand(bf16_to_f32(h));
}

void scatter_bf16(const std::byte* row, uint32_t cols, uint32_t lane, std::byte* panel) {
  for (uint32_t k = 0; k < cols; ++k) {
    const uint16_t h = bf16_operand_at(row, k);
    std::memcpy(bf16_element(panel, lane, k), &h, 2);
  }
}

void pack_plain_row(DType dtype, const std::byte* row, uint32_t cols, uint32_t lane,
                    std::byte* panel) {
  if (dtype == DType::f32) return scatter_plain<uint32_t>(row, cols, lane, panel);
  if (dtype == DType::f16) return scatter_plain<uint16_t>(row, cols, lane, panel);
  scatter_bf16(row, cols, lane, panel);
}

// `row` is the file's row; its lane in the panel.
void pack_segment_row(DType dtype, const PanelLayout& layout, const std::byte* row, uint32_t cols,
                      uint32_t segment, uint32_t lane, std::byte* panel) {
  const size_t block_bytes = info(dtype).bytes;
  const uint32_t blocks = blocks_in(cols, segment);
  const uint32_t file_blocks = layout.block == kSegment ? 1 : blocks;
  const std::byte* from = row + row_bytes(dtype, size_t{segment} * kSegment);
  for (int f = 0; f < layout.count; ++f) {
    const PanelField& field = layout.fields[f];
    std::byte* to = panel + offset_of(layout, f, segment, blocks);
    for (uint32_t b = 0; b < file_blocks; ++b)
      scatter_field(from + b * block_bytes + field.file_offset, field, lane,
                    to + b * field.bytes());
  }
}

void pack_panel(const TensorView& file, const PanelLayout& layout, uint32_t first_row,
                std::byte* panel) {
  const uint32_t rows = std::min(kPanelRows, file.rows - first_row);
  const size_t stride = row_bytes(file.dtype, file.cols);
  const std::byte* source = file.data + first_row * stride;
  if (is_plain(file.dtype)) {
    for (uint32_t r = 0; r < rows; ++r)
      pack_plain_row(file.dtype, source + r * stride, file.cols, r, panel);
    return;
  }
  for (uint32_t s = 0; s < segments_of(file.cols); ++s) {
    for (uint32_t r = 0; r < rows; ++r)
      pack_segment_row(file.dtype, layout, source + r * stride, file.cols, s, r, panel);
  }
}

// The file's bytes of one segment of a row.
void unpack_segment_row(DType dtype, const PanelLayout& layout, const std::byte* panel,
                        uint32_t cols, uint32_t segment, uint32_t lane, std::byte* out) {
  const uint32_t blocks = blocks_in(cols, segment);
  const uint32_t file_blocks = layout.block == kSegment ? 1 : blocks;
  for (int f = 0; f < layout.count; ++f) {
    const PanelField& field = layout.fields[f];
    const std::byte* from = panel + offset_of(layout, f, segment, blocks);
    for (uint32_t b = 0; b < file_blocks; ++b) {
      gather_field(from + b * field.bytes(), field, lane,
                   out + b * info(dtype).bytes + field.file_offset);
    }
  }
}

void plain_row_from_panel(DType dtype, const std::byte* panel, uint32_t cols, uint32_t lane,
                          float* out) {
  for (uint32_t k = 0; k < cols; ++k) {
    const size_t element = size_t{k} * kPanelRows + lane;
    if (dtype == DType::f32) {
      std::memcpy(out + k, panel + element * 4, 4);
      continue;
    }
    const std::byte* at = dtype == DType::f16
                              ? panel + element * 2
                              : bf16_element(const_cast<std::byte*>(panel), lane, k);
    uint16_t h;
    std::memcpy(&h, at, 2);
    out[k] = dtype == DType::f16 ? f16_to_f32(h) : bf16_to_f32(h);
  }
}

void row_from_panel(DType dtype, const std::byte* panel, uint32_t cols, uint32_t lane, float* out) {
  const PanelLayout layout = panel_layout(dtype);
  std::byte bytes[kSegment * 2];  // no format exceeds two bytes an element
  for (uint32_t s = 0; s < segments_of(cols); ++s) {
    unpack_segment_row(dtype, layout, panel, cols, s, lane, bytes);
    quant::decode_row(dtype, bytes, out + size_t{s} * kSegment, blocks_in(cols, s) * kActBlock);
  }
}

}  // namespace

size_t panel_bytes(DType dtype, uint32_t cols) {
  if (dtype == DType::bf16) return whole_lines((size_t{cols} + 1) / 2 * 4 * kPanelRows);
  if (is_plain(dtype)) return whole_lines(size_t{cols} * kPanelRows * info(dtype).bytes);
  const PanelLayout layout = panel_layout(dtype);
  const uint32_t full = cols / kSegment;
  const uint32_t rest = cols / kActBlock - full * kSegmentBlocks;
  size_t bytes = segment_offset(layout, full);
  if (rest != 0) bytes += field_offset(layout, layout.count, rest);
  return whole_lines(bytes);
}

void pack_panels(const TensorView& file, uint32_t begin, uint32_t end, std::byte* out) {
  const PanelLayout layout = panel_layout(file.dtype);
  const size_t bytes = panel_bytes(file.dtype, file.cols);
  for (uint32_t p = begin; p < end; ++p) {
    std::byte* panel = out + size_t{p - begin} * bytes;
    std::memset(panel, 0, bytes);
    pack_panel(file, layout, p * kPanelRows, panel);
  }
}

void matrix_row(const Matrix& matrix, uint32_t row, float* out) {
  const TensorView& file = matrix.file;
  if (file.data == nullptr) {
    const std::byte* panel =
        matrix.panels + size_t{row / kPanelRows} * panel_bytes(file.dtype, file.cols);
    if (is_plain(file.dtype))
      return plain_row_from_panel(file.dtype, panel, file.cols, row % kPanelRows, out);
    return row_from_panel(file.dtype, panel, file.cols, row % kPanelRows, out);
  }
  const std::byte* from = file.data + row * row_bytes(file.dtype, file.cols);
  if (file.dtype != DType::bf16) return quant::decode_row(file.dtype, from, out, file.cols);
  for (uint32_t k = 0; k < file.cols; ++k) out[k] = bf16_to_f32(bf16_operand_at(from, k));
}

}  // namespace gyre::kernels
