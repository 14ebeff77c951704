// One row's KV over all layers: which pages hold its positions. Owner: a request.
//
// A step is reserve(n), writes and reads of positions [length, length + n) through pages() and
// page(), then commit(m), m <= n. Positions are absolute; page tables have one entry for each 64
// positions from 0 on, null where no page is held. Move-only; one thread at a time for the calls
// here; must die before its pool. Errors leave the sequence as it was.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/memory.h"
#include "kv/pool.h"
#include "kv/spec.h"

namespace gyre::kv {

class Sequence {
 public:
  // Checks the layers: sizes, windows, donors (an earlier or later layer that owns its place).
  static Result<Sequence> make(PagePool& pool, std::span<const LayerSpec> layers,
                               uint32_t max_positions);

  uint32_t length() const { return length_; }
  uint32_t reserved() const { return reserved_; }  // positions that have pages, >= length
  uint32_t max_positions() const { return max_positions_; }
  size_t layers() const { return count_; }

  // Pages for positions [length, length + n) in every layer, or nothing. Errors: context_overflow,
  // out_of_memory.
  Status reserve(uint32_t n);
  // length += n, n <= reserved - length. Releases sliding pages that no later query sees.
  Status commit(uint32_t n);
  // Forgets positions from `length` on, and their pages. Refused (unsupported) when a sliding layer
  // has released what a query at that length would see.
  Status truncate(uint32_t length);
  // The smallest non-zero length that truncate takes.
  uint32_t minimum_length() const;
  void reset();  // forgets everything and releases every page

  // A layer's page table; valid until the next reserve, commit, truncate or reset.
  std::byte* const* pages(size_t layer) const { return owner(layer).table.data(); }
  // The page that holds a position, or null.
  std::byte* page(size_t layer, uint32_t position) const;
  // What the query at a position sees.
  Visible visible(size_t layer, uint32_t position) const;
  const KvLayout& layout(size_t layer) const { return owner(layer).spec.layout; }
  bool owns(size_t layer) const { return layers_[layer].spec.donor < 0; }

  size_t bytes() const;                      // of the pages held, as the pool counts them
  size_t projected_bytes(uint32_t n) const;  // what reserve(n) adds to that

 private:
  struct Layer {
    LayerSpec spec;
    size_t first = 0, end = 0;  // pages [first, end) are held
    Array<std::byte*> table;
    std::unique_ptr<PageRef[]> refs;  // as long as the table
  };

  Sequence() = default;
  const Layer& owner(size_t layer) const {
    const int donor = layers_[layer].spec.donor;
    return layers_[donor < 0 ? layer : static_cast<size_t>(donor)];
  }
  static Status widen(Layer& layer, size_t pages);
  static void drop(Layer& layer, size_t first, size_t end);

  PagePool* pool_ = nullptr;
  std::unique_ptr<Layer[]> layers_;
  size_t count_ = 0;
  uint32_t length_ = 0, reserved_ = 0, max_positions_ = 0;
};

}  // namespace gyre::kv
