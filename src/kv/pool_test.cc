#include "kv/pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <vector>

namespace gyre::kv {
namespace {

bool all_zero(const std::byte* p, size_t n) {
  return std::all_of(p, p + n, [](std::byte b) { return b == std::byte{0}; });
}

TEST(PagePool, PagesAreZeroedAlignedAndApart) {
  PagePool pool(0);
  std::vector<PageRef> pages;
  std::set<std::byte*> places;
  for (int i = 0; i < 100; ++i) {
    auto page = pool.allocate(50'000);
    ASSERT_TRUE(page.ok());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(page->data()) % 64, 0u);
    EXPECT_TRUE(all_zero(page->data(), 50'000));
    std::memset(page->data(), 0xff, 50'000);
    places.insert(page->data());
    pages.push_back(std::move(*page));
  }
  for (auto at = places.begin(); std::next(at) != places.end(); ++at)
    EXPECT_GE(*std::next(at) - *at, 50'000);
  EXPECT_EQ(places.size(), 100u);
  pages.resize(40);
  for (int i = 0; i < 60; ++i) {  // used slots come back zeroed
    pages.push_back(std::move(*pool.allocate(50'000)));
    EXPECT_TRUE(all_zero(pages.back().data(), 50'000));
  }
}

TEST(PagePool, CountsBytesExactly) {
  PagePool pool(0);
  EXPECT_EQ(pool.bytes_in_use(), 0u);
  {
    PageRef a = std::move(*pool.allocate(1000));
    EXPECT_EQ(pool.bytes_in_use(), 1024u);
    EXPECT_EQ(PagePool::page_cost(1000), 1024u);
    PageRef b = std::move(*pool.allocate(4096));
    EXPECT_EQ(pool.bytes_in_use(), 5120u);
    EXPECT_EQ(pool.bytes_of_slabs(), 2 * os::Pages::kStep);  // one for each size
    b.reset();
    EXPECT_FALSE(b);
    EXPECT_EQ(pool.bytes_in_use(), 1024u);
  }
  EXPECT_EQ(pool.bytes_in_use(), 0u);
}

TEST(PagePool, APageLivesAsLongAsItsLastReference) {
  PagePool pool(0);
  PageRef a = std::move(*pool.allocate(64));
  a.data()[7] = std::byte{9};
  PageRef b = a.share();
  EXPECT_EQ(a.holders(), 2u);
  EXPECT_EQ(a.data(), b.data());
  a.reset();
  EXPECT_EQ(b.holders(), 1u);
  EXPECT_EQ(b.data()[7], std::byte{9});
  EXPECT_EQ(pool.bytes_in_use(), 64u);
  PageRef c = std::move(b);
  EXPECT_FALSE(b);  // NOLINT: a moved-from reference is empty
  c = std::move(*pool.allocate(64));
  EXPECT_EQ(c.data()[7], std::byte{0});
  EXPECT_EQ(pool.bytes_in_use(), 64u);
  EXPECT_FALSE(PageRef().share());
}

TEST(PagePool, KeepsItsBudgetAndGivesFreeSlabsToOtherSizes) {
  const size_t half = os::Pages::kStep / 2;
  PagePool pool(2 * os::Pages::kStep);
  std::vector<PageRef> pages;
  for (int i = 0; i < 4; ++i) pages.push_back(std::move(*pool.allocate(half)));
  auto none = pool.allocate(half);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, ErrorCode::out_of_memory);
  EXPECT_EQ(pool.allocate(64).error().code, ErrorCode::out_of_memory);
  pages.resize(3);
  EXPECT_TRUE(pool.allocate(half).ok());  // the free slot
  EXPECT_FALSE(pool.allocate(64).ok());   // its slab is still in use
  pages.erase(pages.begin(), pages.begin() + 2);
  PageRef small = std::move(*pool.allocate(64));  // the free slab changes hands
  EXPECT_EQ(pool.bytes_in_use(), half + 64);
  EXPECT_EQ(pool.bytes_of_slabs(), 2 * os::Pages::kStep);
  EXPECT_TRUE(pool.allocate(half).ok());
  EXPECT_FALSE(pool.allocate(2 * os::Pages::kStep + 1).ok());
  EXPECT_FALSE(pool.allocate(0).ok());
  EXPECT_FALSE(pool.allocate(~size_t{0}).ok());
}

TEST(PagePool, FitsSaysWhatTheBudgetAllows) {
  const size_t step = os::Pages::kStep;
  PagePool pool(2 * step);
  const auto fits = [&pool](std::vector<PageDemand> pages) { return pool.fits(pages); };
  EXPECT_TRUE(fits({}));
  EXPECT_TRUE(fits({{step / 4, 8}}));
  EXPECT_FALSE(fits({{step / 4, 9}}));
  EXPECT_FALSE(fits({{step / 4, 4}, {step / 4, 5}}));  // two demands of one size
  EXPECT_TRUE(fits({{step / 4, 4}, {64, 1}}));
  EXPECT_FALSE(fits({{step / 4, 4}, {64, 1}, {128, 1}}));  // a slab for each size
  EXPECT_TRUE(fits({{step + 1, 1}}));                      // a slab of two steps
  EXPECT_FALSE(fits({{step + 1, 2}}));
  EXPECT_TRUE(PagePool(0).fits(std::vector<PageDemand>{{step, 1u << 30}}));
  std::vector<PageRef> held;
  for (int i = 0; i < 5; ++i) held.push_back(std::move(*pool.allocate(step / 4)));
  EXPECT_TRUE(fits({{step / 4, 3}}));
  EXPECT_FALSE(fits({{step / 4, 4}}));
  EXPECT_FALSE(fits({{64, 1}}));
  held.clear();
  EXPECT_TRUE(fits({{64, 1}}));  // free slabs change hands
}

// What fits can be had, whatever the pool went through before.
TEST(PagePool, WhatFitsCanBeAllocated) {
  uint32_t x = 12345, fitting = 0, refused = 0;
  const auto random = [&x](uint32_t n) { return (x = x * 1664525 + 1013904223, x >> 8) % n; };
  const size_t sizes[] = {64, 4096, 300'000, 1'000'000, 3'000'000};
  for (int round = 0; round < 60; ++round) {
    PagePool pool((2 + random(8)) * os::Pages::kStep);
    pool.set_placement_seed(random(3));
    std::vector<PageRef> held;
    for (int i = 0; i < 20; ++i) {
      for (uint32_t n = random(12); n > 0; --n) {
        auto page = pool.allocate(sizes[random(5)]);
        if (page.ok()) held.push_back(std::move(*page));
      }
      for (size_t n = random(static_cast<uint32_t>(held.size()) + 1); n > 0; --n) {
        std::swap(held[random(static_cast<uint32_t>(held.size()))], held.back());
        held.pop_back();
      }
      std::vector<PageDemand> wanted;
      for (const size_t size : sizes) wanted.push_back({size, random(6)});
      if (!pool.fits(wanted)) {
        ++refused;
        continue;
      }
      ++fitting;
      std::vector<PageRef> taken;
      for (const PageDemand& demand : wanted) {
        for (size_t n = 0; n < demand.count; ++n) {
          auto page = pool.allocate(demand.bytes);
          ASSERT_TRUE(page.ok()) << page.error().text;
          taken.push_back(std::move(*page));
        }
      }
    }
  }
  EXPECT_GT(fitting, 100u);
  EXPECT_GT(refused, 100u);
}

TEST(PagePool, TheSeedMovesPages) {
  const auto places = [](uint64_t seed) {
    PagePool pool(0);
    pool.set_placement_seed(seed);
    std::vector<PageRef> pages;
    std::vector<ptrdiff_t> out;
    for (int i = 0; i < 20; ++i) pages.push_back(std::move(*pool.allocate(4096)));
    for (const PageRef& page : pages) out.push_back((page.data() - pages[0].data()) / 4096);
    return out;
  };
  std::vector<ptrdiff_t> plain;
  for (int i = 0; i < 20; ++i) plain.push_back(i);
  EXPECT_EQ(places(0), plain);
  EXPECT_NE(places(1), plain);
  EXPECT_NE(places(1), places(2));
  EXPECT_EQ(places(1), places(1));
}

TEST(PagePool, EveryAllocationMayFailAndLeavesThePoolAsItWas) {
  for (long n = 0;; ++n) {
    PagePool pool(0);
    PageRef first = std::move(*pool.allocate(4096));
    fail_allocation_after(n);
    auto page = pool.allocate(8192);  // a new class and a new slab
    fail_allocation_after(-1);
    if (page.ok()) {
      EXPECT_GE(n, 6);  // page, class, memory, records, free list, slab
      fail_allocation_after(0);
      EXPECT_FALSE(pool.allocate(4096).ok());  // a free slot
      fail_allocation_after(-1);
      return;
    }
    EXPECT_EQ(page.error().code, ErrorCode::out_of_memory);
    EXPECT_EQ(pool.bytes_in_use(), 4096u);
    EXPECT_EQ(pool.bytes_of_slabs(), os::Pages::kStep);
    EXPECT_TRUE(pool.allocate(8192).ok());
    EXPECT_TRUE(pool.allocate(4096).ok());
  }
}

}  // namespace
}  // namespace gyre::kv
