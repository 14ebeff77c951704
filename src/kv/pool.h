// Memory for KV pages: fixed-size slots, reference-counted, in slabs taken from the system.
//
// A size class is a page's byte count rounded up to a cache line. Slabs belong to one class; the
// pool grows up to a budget of bytes, and gives wholly free slabs back when another class needs
// room. One thread at a time (the scheduler's); page contents may be used by any thread. Every
// PageRef must die before its pool. Errors: out_of_memory, which leaves the pool as it was.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "base/memory.h"
#include "base/result.h"
#include "os/memory.h"

namespace gyre::kv {

class PagePool;

// One reference to a page. Empty, or alive as long as this exists.
class PageRef {
 public:
  PageRef() = default;
  PageRef(PageRef&& other) noexcept : slot_(std::exchange(other.slot_, nullptr)) {}
  PageRef& operator=(PageRef&& other) noexcept {
    if (this != &other) {
      reset();
      slot_ = std::exchange(other.slot_, nullptr);
    }
    return *this;
  }
  ~PageRef() { reset(); }

  explicit operator bool() const { return slot_ != nullptr; }
  std::byte* data() const;
  uint32_t holders() const;  // how many references the page has
  PageRef share() const;     // another reference to the same page
  void reset();

 private:
  friend class PagePool;
  struct Slot;
  explicit PageRef(Slot* slot) : slot_(slot) {}
  Slot* slot_ = nullptr;
};

// `count` pages of `bytes` bytes each.
struct PageDemand {
  size_t bytes = 0, count = 0;
};

class PagePool {
 public:
  // The budget limits the bytes of slabs; 0 = no limit.
  explicit PagePool(size_t budget);
  ~PagePool();
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;

  // A zeroed page of at least `bytes` bytes (> 0), aligned to 64.
  Result<PageRef> allocate(size_t bytes);

  // Do these pages fit the budget, all together? True: allocating them fails only if the system
  // has no memory. May be false where they would just fit, when slabs would have to change hands.
  bool fits(std::span<const PageDemand> pages) const;

  // What a page of `bytes` bytes adds to bytes_in_use().
  static size_t page_cost(size_t bytes) { return (bytes + 63) / 64 * 64; }
  size_t bytes_in_use() const { return in_use_; }
  size_t bytes_of_slabs() const { return slab_bytes_; }
  size_t budget() const { return budget_; }

  // Verification: permutes where the next pages lie. 0 = the plain order (lowest address first in a
  // new slab, last freed first afterwards). Results must not depend on it.
  void set_placement_seed(uint64_t seed) { seed_ = seed; }

 private:
  friend class PageRef;
  struct Slab;
  struct Class;

  static size_t slab_bytes(size_t slot_bytes);
  const Class* find(size_t slot_bytes) const;
  Result<Class*> class_of(size_t slot_bytes);
  Status grow(Class& wanted);
  void release_free_slabs();
  void release(PageRef::Slot* slot);
  size_t pick(size_t count);

  size_t budget_, in_use_ = 0, slab_bytes_ = 0;
  uint64_t seed_ = 0;
  Class* classes_ = nullptr;
};

}  // namespace gyre::kv
