#include "kv/page_table.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace gyre::kv {

Status PageTable::resize(size_t size) {
  GYRE_ASSIGN(auto table, Array<std::byte*>::make(size, "KV page table"));
  std::unique_ptr<PageRef[]> refs(allocation_must_fail() ? nullptr
                                                         : new (std::nothrow) PageRef[size]);
  if (refs == nullptr) return fail(ErrorCode::out_of_memory, "KV page table");
  for (size_t p = first_; p < end_; ++p) {
    table[p] = table_[p];
    refs[p] = std::move(refs_[p]);
  }
  table_ = std::move(table);
  refs_ = std::move(refs);
  return {};
}

Status PageTable::widen(size_t first, size_t pages) {
  if (pages > table_.size()) GYRE_TRY(resize(std::max<size_t>({pages, 2 * table_.size(), 16})));
  if (first_ == end_) first_ = end_ = first;
  return {};
}

Status PageTable::stage(PagePool& pool, size_t bytes) {
  GYRE_ASSIGN(refs_[end_ + staged_], pool.allocate(bytes));
  ++staged_;
  return {};
}

Status PageTable::stage_copy(PagePool& pool, size_t page, size_t bytes) {
  GYRE_ASSIGN(copy_, pool.allocate(bytes));
  std::memcpy(copy_.data(), table_[page], bytes);
  copy_of_ = page;
  return {};
}

void PageTable::accept() {
  if (copy_) {
    refs_[copy_of_] = std::move(copy_);
    table_[copy_of_] = refs_[copy_of_].data();
  }
  for (; staged_ != 0; --staged_, ++end_) table_[end_] = refs_[end_].data();
}

void PageTable::discard() {
  copy_.reset();
  for (; staged_ != 0; --staged_) refs_[end_ + staged_ - 1].reset();
}

void PageTable::drop(size_t first, size_t end) {
  for (size_t p = first; p < end; ++p) {
    table_[p] = nullptr;
    refs_[p].reset();
  }
}

void PageTable::drop_before(size_t page) {
  const size_t keep = std::min(page, end_);
  if (keep <= first_) return;
  drop(first_, keep);
  first_ = keep;
}

void PageTable::drop_from(size_t page) {
  const size_t end = std::max(page, first_);
  if (end >= end_) return;
  drop(end, end_);
  end_ = end;
}

void PageTable::clear() {
  drop(first_, end_);
  first_ = end_ = 0;
}

Result<PageTable> PageTable::share() const {
  PageTable out;
  if (end_ == 0) return out;
  GYRE_TRY(out.resize(end_));
  out.first_ = first_;
  out.end_ = end_;
  for (size_t p = first_; p < end_; ++p) {
    out.table_[p] = table_[p];
    out.refs_[p] = refs_[p].share();
  }
  return out;
}

}  // namespace gyre::kv
