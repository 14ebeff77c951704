// Rows into pages: writes, the codes of the past, anchors.
#include <algorithm>

#include "base/fp_env.h"
#include "kv/sequence.h"

namespace gyre::kv {

using kernels::AttentionOps;
using kernels::kPagePositions;

bool Sequence::write(const AttentionOps& ops, size_t layer, uint32_t position, const float* k,
                     const float* v) {
  const LayerState& of = layers_[layer];
  const size_t page = position / kPagePositions;
  const uint32_t at = position % kPagePositions;
  const bool delayed = of.has_code();
  bool finite = true, plain = false;
  if (!delayed || (plain_ && position < start_)) {
    finite = ops.store(of.layout(Part::plain, page), of.plain.page(page), at, k, v, nullptr);
    plain = true;
  }
  if (delayed && codes_ == Codes::ready) {
    const std::byte* anchor = page == 0 ? nullptr : of.anchor.data();
    const bool coded =
        ops.store(of.layout(Part::coded, page), of.coded.page(page), at, k, v, anchor);
    // A magnitude that bf16 holds and a code does not: zeros, as when the position is converted.
    if (!plain) finite = coded;
  }
  return finite;
}

// The codes of one plain page's positions below the length. row: one position's K and V.
void Sequence::encode_page(const AttentionOps& ops, const LayerState& layer, size_t page,
                           float* row) const {
  const KvLayout from = layer.layout(Part::plain, page), to = layer.layout(Part::coded, page);
  float* v = row + size_t{from.kv_heads} * from.k_dim;
  const std::byte* anchor = page == 0 ? nullptr : layer.anchor.data();
  const auto first = static_cast<uint32_t>(page * kPagePositions);
  for (uint32_t p = 0; p < std::min(kPagePositions, length_ - first); ++p) {
    kernels::load_position(from, layer.plain.page(page), p, row, v);
    (void)ops.store(to, layer.coded.page(page), p, row, v, anchor);
  }
}

Status Sequence::convert(const AttentionOps& ops, ThreadPool* threads) {
  GYRE_TRY(check_usable("convert"));
  if (codes_ != Codes::taken) return {};
  size_t row = 0, pages = 0;
  const size_t end = pages_for(length_);
  for (size_t i = 0; i < count_; ++i) {
    const LayerState& of = layers_[i];
    if (!of.owns() || !of.has_code()) continue;
    row = std::max(row,
                   of.spec.layout.kv_heads * (size_t{of.spec.layout.k_dim} + of.spec.layout.v_dim));
    pages += end - std::min(end, of.coded.first());
  }
  const auto workers = static_cast<size_t>(threads == nullptr ? 1 : threads->size());
  const size_t stride = (row + 15) / 16 * 16;
  GYRE_ASSIGN(auto rows, Array<float>::make(workers * stride, "KV conversion rows"));
  const auto encode = [&](size_t index, int worker) {
    size_t layer = 0;
    for (;; ++layer) {
      const LayerState& of = layers_[layer];
      if (!of.owns() || !of.has_code()) continue;
      const size_t held = end - std::min(end, of.coded.first());
      if (index < held) break;
      index -= held;
    }
    encode_page(ops, layers_[layer], layers_[layer].coded.first() + index,
                rows.data() + static_cast<size_t>(worker) * stride);
  };
  if (threads != nullptr) {
    threads->run(pages, encode);
  } else {
    FloatEnvironment environment;
    for (size_t i = 0; i < pages; ++i) encode(i, 0);
  }
  codes_ = Codes::ready;
  return {};
}

bool Sequence::completes_anchor() const {
  return length_ < kPagePositions && reserved_ >= kPagePositions;
}

void Sequence::fix_anchor(const AttentionOps& ops, size_t layer) {
  LayerState& of = layers_[layer];
  if (!of.anchor || !completes_anchor()) return;
  FloatEnvironment environment;
  const std::byte* wide = of.coded.page(0);
  if (codes_ != Codes::ready) {
    if (scratch_.empty()) return;
    const KvLayout from = of.layout(Part::plain, 0), to = of.layout(Part::coded, 0);
    std::byte* made = scratch_.data();
    float* k = reinterpret_cast<float*>(made + (to.page_bytes() + 63) / 64 * 64);
    float* v = k + size_t{from.kv_heads} * from.k_dim;
    for (uint32_t p = 0; p < kPagePositions; ++p) {
      kernels::load_position(from, of.plain.page(0), p, k, v);
      (void)ops.store(to, made, p, k, v, nullptr);
    }
    wide = made;
  }
  kernels::make_anchor(of.spec.layout, wide, of.anchor.data());
  of.anchor_fixed = true;
}

}  // namespace gyre::kv
