// What a row holds of one layer, and how each part is laid out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "kv/page_table.h"
#include "kv/pool.h"
#include "kv/recurrent.h"
#include "kv/spec.h"

namespace gyre::kv {

enum class Part : uint8_t { plain, coded, anchor, recurrent };
inline bool is_page(Part part) {
  return part == Part::plain || part == Part::coded;
}

struct LayerState {
  LayerSpec spec;
  PageTable plain, coded;
  PageRef anchor, staged_anchor;
  bool anchor_fixed = false;
  std::optional<RecurrentState> recurrent;
  bool fresh_block = false;  // of `recurrent`: taken by the step under way

  // Owns pages: keys and values are its own.
  bool owns() const { return spec.donor < 0 && spec.place != Place::recurrent; }
  // Queries from the row's start on read something else than the plain pages.
  bool has_code() const;
  bool anchored() const { return spec.layout.code.anchored; }
  const PageTable& table(Part part) const { return part == Part::coded ? coded : plain; }
  PageTable& table(Part part) { return part == Part::coded ? coded : plain; }
  // How page `page` of a table is stored: page 0 of an anchored layer is wide.
  KvLayout layout(Part part, size_t page) const;
  size_t part_bytes(Part part, size_t page) const;
  // Bytes of a part as the pool counts them.
  size_t part_cost(Part part, size_t page) const {
    return PagePool::page_cost(part_bytes(part, page));
  }
  // The first position that a query at `position` or later can see.
  uint32_t first_seen(uint32_t position) const {
    if (spec.place == Place::full || position < spec.window) return 0;
    return position - spec.window + 1;
  }
};

constexpr size_t pages_for(uint64_t positions) {
  return (positions + kernels::kPagePositions - 1) / kernels::kPagePositions;
}

// Places, windows, sizes and codes that can be; a donor is a layer that owns its place.
Status check_layers(std::span<const LayerSpec> layers);

}  // namespace gyre::kv
