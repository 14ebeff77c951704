#include "kv/page_codec.h"

#include <cstring>

#include "numerics/half.h"

namespace gyre::kv {
namespace {

using kernels::KvLayout;

// Calls body(byte offset, is key, index in its row set) for each element of a position.
template <class Body>
void for_each_element(const KvLayout& layout, uint32_t position, Body body) {
  const size_t element = layout.element();
  for (uint32_t h = 0; h < layout.kv_heads; ++h) {
    for (uint32_t d = 0; d < layout.k_dim; ++d)
      body(h * layout.k_head_bytes() + (size_t{position / 16} * layout.k_dim * 16 +
                                        size_t{d / 2} * 32 + position % 16 * 2 + d % 2) *
                                           element,
           true, size_t{h} * layout.k_dim + d);
    for (uint32_t d = 0; d < layout.v_dim; ++d)
      body(layout.v_offset() + h * layout.v_head_bytes() +
               ((size_t{position / 2} * layout.v_dim + d) * 2 + position % 2) * element,
           false, size_t{h} * layout.v_dim + d);
  }
}

}  // namespace

void load_position(const KvLayout& layout, const std::byte* page, uint32_t position, float* k,
                   float* v) {
  for_each_element(layout, position, [&](size_t at, bool key, size_t i) {
    float& out = key ? k[i] : v[i];
    if (layout.element() == 4) {
      std::memcpy(&out, page + at, 4);
    } else {
      uint16_t cell;
      std::memcpy(&cell, page + at, 2);
      out = bf16_to_f32(cell);
    }
  });
}

void erase_positions(const KvLayout& layout, std::byte* page, uint32_t first, uint32_t end) {
  for (uint32_t p = first; p < end; ++p)
    for_each_element(layout, p,
                     [&](size_t at, bool, size_t) { std::memset(page + at, 0, layout.element()); });
}

void make_anchor(const KvLayout&, const std::byte*, std::byte*) {}

Status check_layout(const KvLayout& layout, const std::string& what) {
  if (layout.code == kernels::kBf16Code || layout.code == kernels::kF32Code) return {};
  return fail(ErrorCode::unsupported, what + ": code", "", "bf16");
}

}  // namespace gyre::kv
