// One layer's pages in one code: pages [first, end) are held, each with one reference.
//
// Owner: a Sequence. New pages are staged one by one, seen by nobody, and become held all at once
// by accept(), so that a failed allocation anywhere leaves every table as it was. One thread.
#pragma once

#include <cstddef>
#include <memory>

#include "base/memory.h"
#include "kv/pool.h"

namespace gyre::kv {

class PageTable {
 public:
  size_t first() const { return first_; }
  size_t end() const { return end_; }
  bool holds(size_t page) const { return page >= first_ && page < end_; }
  // One entry for each page from 0 on, null where none is held; at least end() entries.
  std::byte* const* data() const { return table_.data(); }
  std::byte* page(size_t page) const { return holds(page) ? table_[page] : nullptr; }
  bool shared(size_t page) const { return holds(page) && refs_[page].holders() > 1; }

  // Room for `pages` entries; an empty table starts at `first`.
  Status widen(size_t first, size_t pages);
  // The next page, zeroed; the first call stages page end().
  Status stage(PagePool& pool, size_t bytes);
  // A copy that will stand in the place of a held page.
  Status stage_copy(PagePool& pool, size_t page, size_t bytes);
  void accept();
  void discard();

  void drop_before(size_t page);
  void drop_from(size_t page);
  void clear();  // empty, from page 0

  // Another reference to every page.
  Result<PageTable> share() const;

 private:
  Status resize(size_t size);
  void drop(size_t first, size_t end);

  size_t first_ = 0, end_ = 0;
  size_t staged_ = 0;  // pages behind end_ that are not held yet
  Array<std::byte*> table_;
  std::unique_ptr<PageRef[]> refs_;  // as long as the table
  PageRef copy_;
  size_t copy_of_ = 0;
};

}  // namespace gyre::kv
