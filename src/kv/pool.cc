#include "kv/pool.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <string>

namespace gyre::kv {

struct PageRef::Slot {
  std::byte* data = nullptr;
  PagePool* pool = nullptr;
  PagePool::Slab* slab = nullptr;
  uint32_t holders = 0;
  bool used_before = false;  // must be zeroed when handed out again
};

struct PagePool::Slab {
  os::Pages memory;
  Array<PageRef::Slot> slots;
  Class* owner = nullptr;
  size_t in_use = 0;
  Slab* next = nullptr;
};

struct PagePool::Class {
  size_t slot_bytes = 0;
  Array<PageRef::Slot*> free;  // room for every slot of the class: release never allocates
  size_t free_count = 0, slot_count = 0;
  Slab* slabs = nullptr;
  Class* next = nullptr;
};

std::byte* PageRef::data() const {
  return slot_ == nullptr ? nullptr : slot_->data;
}

uint32_t PageRef::holders() const {
  return slot_ == nullptr ? 0 : slot_->holders;
}

PageRef PageRef::share() const {
  if (slot_ != nullptr) ++slot_->holders;
  return PageRef(slot_);
}

void PageRef::reset() {
  if (Slot* slot = std::exchange(slot_, nullptr); slot != nullptr && --slot->holders == 0)
    slot->pool->release(slot);
}

PagePool::PagePool(size_t budget) : budget_(budget) {}

PagePool::~PagePool() {
  while (classes_ != nullptr) {
    Class* dead = std::exchange(classes_, classes_->next);
    while (dead->slabs != nullptr) delete std::exchange(dead->slabs, dead->slabs->next);
    delete dead;
  }
}

// A number below count: the last one, or any one when the placement is shuffled.
size_t PagePool::pick(size_t count) {
  if (seed_ == 0) return count - 1;
  seed_ += 0x9e3779b97f4a7c15;  // splitmix64
  uint64_t z = seed_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  if (seed_ == 0) seed_ = 1;
  return (z ^ (z >> 31)) % count;
}

size_t PagePool::slab_bytes(size_t slot_bytes) {
  return (slot_bytes + os::Pages::kStep - 1) / os::Pages::kStep * os::Pages::kStep;
}

const PagePool::Class* PagePool::find(size_t slot_bytes) const {
  const Class* c = classes_;
  while (c != nullptr && c->slot_bytes != slot_bytes) c = c->next;
  return c;
}

Result<PagePool::Class*> PagePool::class_of(size_t slot_bytes) {
  if (const Class* c = find(slot_bytes); c != nullptr) return const_cast<Class*>(c);
  Class* made = allocation_must_fail() ? nullptr : new (std::nothrow) Class;
  if (made == nullptr) return fail(ErrorCode::out_of_memory, "KV page class");
  made->slot_bytes = slot_bytes;
  made->next = std::exchange(classes_, made);
  return made;
}

// One more slab for a class; nothing changes when that fails.
Status PagePool::grow(Class& wanted) {
  const size_t bytes = slab_bytes(wanted.slot_bytes);
  if (budget_ != 0 && bytes > budget_ - std::min(budget_, slab_bytes_)) {
    release_free_slabs();
    if (bytes > budget_ - std::min(budget_, slab_bytes_))
      return fail(ErrorCode::out_of_memory, "KV pool", std::to_string(slab_bytes_) + " bytes",
                  "at most " + std::to_string(budget_));
  }
  GYRE_ASSIGN(os::Pages memory, os::Pages::make(bytes, os::Pages::Huge::yes, "KV slab"));
  const size_t count = memory.size() / wanted.slot_bytes;
  GYRE_ASSIGN(auto slots, Array<PageRef::Slot>::make(count, "KV page records"));
  GYRE_ASSIGN(auto free, Array<PageRef::Slot*>::make(wanted.slot_count + count, "KV free list"));
  Slab* slab = allocation_must_fail() ? nullptr : new (std::nothrow) Slab;
  if (slab == nullptr) return fail(ErrorCode::out_of_memory, "KV slab record");

  std::copy(wanted.free.data(), wanted.free.data() + wanted.free_count, free.data());
  wanted.free = std::move(free);
  slab->owner = &wanted;
  for (size_t i = 0; i < count; ++i) {
    PageRef::Slot& slot = slots[count - 1 - i];
    slot = {memory.data() + (count - 1 - i) * wanted.slot_bytes, this, slab, 0, false};
    wanted.free[wanted.free_count++] = &slot;
  }
  wanted.slot_count += count;
  slab_bytes_ += memory.size();
  slab->memory = std::move(memory);
  slab->slots = std::move(slots);
  slab->next = std::exchange(wanted.slabs, slab);
  return {};
}

void PagePool::release_free_slabs() {
  for (Class* c = classes_; c != nullptr; c = c->next) {
    auto* end = std::remove_if(c->free.data(), c->free.data() + c->free_count,
                               [](PageRef::Slot* slot) { return slot->slab->in_use == 0; });
    c->free_count = static_cast<size_t>(end - c->free.data());
    for (Slab** at = &c->slabs; *at != nullptr;) {
      if ((*at)->in_use != 0) {
        at = &(*at)->next;
        continue;
      }
      Slab* dead = std::exchange(*at, (*at)->next);
      c->slot_count -= dead->slots.size();
      slab_bytes_ -= dead->memory.size();
      delete dead;
    }
  }
}

Result<PageRef> PagePool::allocate(size_t bytes) {
  if (bytes == 0 || bytes > std::numeric_limits<size_t>::max() / 4)
    return fail(ErrorCode::out_of_memory, "KV page", std::to_string(bytes) + " bytes");
  // Counted by itself: a free slot is an allocation too, and must be able to fail in tests.
  if (allocation_must_fail()) return fail(ErrorCode::out_of_memory, "KV page");
  GYRE_ASSIGN(auto* of, class_of(page_cost(bytes)));
  if (of->free_count == 0) GYRE_TRY(grow(*of));
  const size_t at = pick(of->free_count);
  std::swap(of->free[at], of->free[of->free_count - 1]);
  PageRef::Slot* slot = of->free[--of->free_count];
  if (slot->used_before) std::memset(slot->data, 0, of->slot_bytes);
  slot->used_before = true;
  slot->holders = 1;
  ++slot->slab->in_use;
  in_use_ += of->slot_bytes;
  return PageRef(slot);
}

bool PagePool::fits(std::span<const PageDemand> pages) const {
  if (budget_ == 0) return true;
  // Free slabs of sizes that are not asked for can be given back; the others' slots are counted as
  // free, and so must stay.
  uint64_t releasable = 0, wanted = 0;
  for (const Class* c = classes_; c != nullptr; c = c->next) {
    const bool asked = std::any_of(pages.begin(), pages.end(), [c](const PageDemand& d) {
      return d.count != 0 && page_cost(d.bytes) == c->slot_bytes;
    });
    for (const Slab* slab = c->slabs; slab != nullptr && !asked; slab = slab->next)
      releasable += slab->in_use == 0 ? slab->memory.size() : 0;
  }
  for (size_t i = 0; i < pages.size(); ++i) {
    const size_t slot = page_cost(pages[i].bytes);
    const auto same = [slot](const PageDemand& d) { return page_cost(d.bytes) == slot; };
    if (std::any_of(pages.begin(), pages.begin() + static_cast<ptrdiff_t>(i), same)) continue;
    uint64_t count = 0;
    for (const PageDemand& d : pages.subspan(i)) count += same(d) ? d.count : 0;
    const Class* of = find(slot);
    const uint64_t free = of == nullptr ? 0 : of->free_count;
    if (count <= free) continue;
    const uint64_t in_slab = slab_bytes(slot) / slot;
    wanted += (count - free + in_slab - 1) / in_slab * slab_bytes(slot);
  }
  return wanted <= budget_ - std::min(budget_, slab_bytes_) + releasable;
}

void PagePool::release(PageRef::Slot* slot) {
  Class& owner = *slot->slab->owner;
  --slot->slab->in_use;
  in_use_ -= owner.slot_bytes;
  owner.free[owner.free_count++] = slot;
}

}  // namespace gyre::kv
