// Rows of a page by position, scalar: bf16 and f32 pages.
#pragma once

#include <string>

#include "kernels/attention.h"

namespace gyre::kv {

inline kernels::KvLayout wide_layout(const kernels::KvLayout& layout) {
  kernels::KvLayout out = layout;
  out.code = {{kernels::CodeKind::bf16, 16, 0}, {kernels::CodeKind::bf16, 16, 0}, true, false};
  return out;
}
inline size_t anchor_bytes(const kernels::KvLayout& layout) {
  return layout.code.anchored ? size_t{2} * layout.kv_heads * layout.k_dim : 0;
}
inline bool store_row(const kernels::AttentionOps& ops, const kernels::KvLayout& layout,
                      std::byte* page, uint32_t position, const float* k, const float* v,
                      const std::byte* /*anchor*/) {
  return ops.store(layout, page, position, k, v);
}
void load_position(const kernels::KvLayout& layout, const std::byte* page, uint32_t position,
                   float* k, float* v);
void erase_positions(const kernels::KvLayout& layout, std::byte* page, uint32_t first,
                     uint32_t end);
void make_anchor(const kernels::KvLayout& layout, const std::byte* wide, std::byte* anchor);
Status check_layout(const kernels::KvLayout& layout, const std::string& what);

}  // namespace gyre::kv
