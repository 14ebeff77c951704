// The load-time audit of scales and plain values. The common case reads each field once without
// branches; only a row that failed is searched for the culprit.
#include <cassert>
#include <string>

#include "quant/format.h"

namespace gyre::quant {
namespace {

// The exponents of all ones mark Inf and NaN.
bool bad_f16(const uint8_t* p) {
  return (load_u16(p) & 0x7c00) == 0x7c00;
}
bool bad_bf16(const uint8_t* p) {
  return (load_u16(p) & 0x7f80) == 0x7f80;
}
bool bad_f32(const uint8_t* p) {
  return (load_u32(p) & 0x7f800000) == 0x7f800000;
}
// The largest e2m1 value, doubled, is 12: 12 * 2^(252 - 128) is the last that f32 holds.
bool bad_e8m0(const uint8_t* p) {
  return *p > 252;
}

// The first of `count` fields, `stride` bytes apart, that is bad; `count` if none is.
template <bool (*bad)(const uint8_t*)>
size_t find(const uint8_t* p, size_t stride, size_t count) {
  bool any = false;
  for (size_t i = 0; i < count; ++i) any |= bad(p + i * stride);
  if (!any) return count;
  size_t i = 0;
  while (!bad(p + i * stride)) ++i;
  return i;
}

struct Culprit {
  size_t index;  // of the block in the row, or the element of a plain row; `count` if there is none
  float value;
};

Culprit find_plain(DType dtype, const uint8_t* row, size_t count) {
  if (dtype == DType::f32) {
    const size_t i = find<bad_f32>(row, 4, count);
    return {i, i < count ? std::bit_cast<float>(load_u32(row + 4 * i)) : 0};
  }
  if (dtype == DType::f16) {
    const size_t i = find<bad_f16>(row, 2, count);
    return {i, i < count ? load_f16(row + 2 * i) : 0};
  }
  const size_t i = find<bad_bf16>(row, 2, count);
  return {i, i < count ? bf16_to_f32(load_u16(row + 2 * i)) : 0};
}

Culprit find_scale(const Format& f, size_t stride, const uint8_t* row, size_t count) {
  for (int at : f.scale_at) {
    if (at < 0) continue;
    const size_t i = find<bad_f16>(row + at, stride, count);
    if (i < count) return {i, load_f16(row + at + i * stride)};
  }
  return {count, 0};
}

std::string place(std::string_view tensor, size_t row, const char* part, size_t index) {
  return std::string(tensor) + " row " + std::to_string(row) + " " + part + " " +
         std::to_string(index);
}

}  // namespace

Status check_block_scales(const TensorView& view, std::string_view tensor) {
  const DTypeInfo& type = info(view.dtype);
  const Format& f = format(view.dtype);
  assert(view.space == MemorySpace::host && view.cols % type.block == 0);
  const size_t count = view.cols / type.block;
  const auto* row = reinterpret_cast<const uint8_t*>(view.data);
  for (size_t r = 0; r < view.rows; ++r, row += count * type.bytes) {
    if (f.e8m0_scale) {
      const size_t i = find<bad_e8m0>(row, type.bytes, count);
      if (i < count)
        return fail(ErrorCode::bad_file, place(tensor, r, "block", i) + " scale exponent",
                    std::to_string(row[i * type.bytes]), "at most 252");
      continue;
    }
    const bool plain = f.traits.family == Family::plain;
    const Culprit found =
        plain ? find_plain(view.dtype, row, count) : find_scale(f, type.bytes, row, count);
    if (found.index < count)
      return fail(
          ErrorCode::bad_file,
          place(tensor, r, plain ? "element" : "block", found.index) + (plain ? "" : " scale"),
          std::to_string(found.value), "a finite number");
  }
  return {};
}

}  // namespace gyre::quant
