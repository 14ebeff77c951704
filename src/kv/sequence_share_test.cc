// Clones: shared pages, copies before the first write, rows that never see each other.
#include <gtest/gtest.h>

#include "base/memory.h"
#include "kv/sequence_fixture.h"

namespace gyre::kv::testing {
namespace {

const std::vector<LayerSpec> kLayers = {full(), sliding(100), full(kBf16Code, 2, 32), donor(0)};
constexpr size_t kPage = 64 * 64 * 2 * 2;  // each of the three layers'

std::vector<std::byte> raw_bytes(const Sequence& row) {
  std::vector<std::byte> out;
  row.for_each_part([&out](const StoredPart& part) {
    out.insert(out.end(), part.bytes.begin(), part.bytes.end());
  });
  return out;
}

TEST(SequenceShare, AClonesPagesAreShared) {
  PagePool pool(0);
  Sequence a = fresh(pool, kLayers, 0, 150);
  const size_t held = pool.bytes_in_use();
  EXPECT_EQ(held, 9 * kPage);
  Sequence b = std::move(*a.clone());
  EXPECT_EQ(pool.bytes_in_use(), held);
  EXPECT_EQ(b.bytes(), held);
  EXPECT_SAME_ROW(a, b);
  EXPECT_EQ(a.view(0, false).page(149), b.view(0, false).page(149));
  EXPECT_EQ(b.view(3, false).pages[2], a.view(0, false).pages[2]);
  a.reset();
  EXPECT_EQ(pool.bytes_in_use(), held);
  EXPECT_SAME_ROW(b, fresh(pool, kLayers, 0, 150));
  b.reset();
  EXPECT_EQ(pool.bytes_in_use(), 0u);
}

TEST(SequenceShare, OnlyTheTailPageIsCopied) {
  PagePool pool(0);
  Sequence a = fresh(pool, kLayers, 0, 150);
  Sequence b = std::move(*a.clone());
  const size_t held = pool.bytes_in_use();
  EXPECT_EQ(b.projected_bytes(1), 3 * kPage);
  ASSERT_TRUE(step(b, 1).ok());
  EXPECT_EQ(pool.bytes_in_use(), held + 3 * kPage);
  EXPECT_NE(a.view(0, false).page(149), b.view(0, false).page(149));
  EXPECT_EQ(a.view(0, false).page(127), b.view(0, false).page(127));
  // The other holder is alone with its tail now.
  EXPECT_EQ(a.projected_bytes(1), 0u);
  ASSERT_TRUE(step(a, 1, 5).ok());
  EXPECT_EQ(pool.bytes_in_use(), held + 3 * kPage);
  EXPECT_SAME_ROW(b, fresh(pool, kLayers, 0, 151));
}

TEST(SequenceShare, APageBorderNeedsNoCopy) {
  PagePool pool(0);
  Sequence a = fresh(pool, kLayers, 0, 128);
  Sequence b = std::move(*a.clone());
  EXPECT_EQ(b.projected_bytes(1), 3 * kPage);
  ASSERT_TRUE(step(b, 1).ok());
  EXPECT_EQ(a.view(0, false).page(127), b.view(0, false).page(127));
  EXPECT_EQ(a.projected_bytes(1), 3 * kPage);
}

// Three rows from one past, each on its own way; each equals a row that was always alone.
TEST(SequenceShare, DivergingClonesEqualRowsThatWereAlone) {
  for (const uint32_t at : {1u, 63u, 64u, 100u, 190u}) {
    PagePool pool(0);
    Sequence a = fresh(pool, kLayers, 0, at);
    Sequence b = std::move(*a.clone()), c = std::move(*b.clone());
    Sequence alone[3] = {fresh(pool, kLayers, 0, at), fresh(pool, kLayers, 0, at),
                         fresh(pool, kLayers, 0, at)};
    for (uint32_t i = 0; i < 90; ++i) {
      ASSERT_TRUE(step(a, 1, 11).ok());
      ASSERT_TRUE(step(b, 1 + i % 3, 12).ok());
      if (i % 2 == 0) {
        ASSERT_TRUE(step(c, 5, 13).ok());
      }
      ASSERT_TRUE(step(alone[0], 1, 11).ok());
      ASSERT_TRUE(step(alone[1], 1 + i % 3, 12).ok());
      if (i % 2 == 0) {
        ASSERT_TRUE(step(alone[2], 5, 13).ok());
      }
      if (i % 30 == 0) {
        EXPECT_SAME_ROW(a, alone[0]);
        EXPECT_SAME_ROW(b, alone[1]);
        EXPECT_SAME_ROW(c, alone[2]);
      }
    }
    EXPECT_SAME_ROW(a, alone[0]);
    EXPECT_SAME_ROW(b, alone[1]);
    EXPECT_SAME_ROW(c, alone[2]);
    EXPECT_FALSE(a.same_bytes(b));
  }
}

// A shared tail is not wiped for the row that goes back: only its copy is.
TEST(SequenceShare, TruncatingACloneLeavesTheOtherRow) {
  for (const bool drop_other : {false, true}) {
    PagePool pool(0);
    Sequence a = fresh(pool, kLayers, 0, 150);
    Sequence b = std::move(*a.clone());
    ASSERT_TRUE(b.truncate(140).ok());
    EXPECT_SAME_ROW(a, fresh(pool, kLayers, 0, 150));
    EXPECT_SAME_ROW(b, fresh(pool, kLayers, 0, 140));
    EXPECT_EQ(b.digest(), fresh(pool, kLayers, 0, 140).digest());
    Sequence c = std::move(*b.clone());  // a clone of the row that went back
    if (drop_other) a.reset();
    ASSERT_TRUE(step(b, 1, 9).ok());
    Sequence expected = fresh(pool, kLayers, 0, 140);
    ASSERT_TRUE(step(expected, 1, 9).ok());
    EXPECT_SAME_ROW(b, expected);
    EXPECT_EQ(raw_bytes(b), raw_bytes(expected));  // the copy is clean, not only read as clean
    EXPECT_SAME_ROW(c, fresh(pool, kLayers, 0, 140));
    c.reset();
    ASSERT_TRUE(b.truncate(139).ok());
    EXPECT_SAME_ROW(b, fresh(pool, kLayers, 0, 139));
    if (!drop_other) {
      EXPECT_SAME_ROW(a, fresh(pool, kLayers, 0, 150));
    }
  }
}

TEST(SequenceShare, ACloneKeepsWhatMayBeReused) {
  PagePool pool(0);
  Sequence a = fresh(pool, kLayers, 0, 600);
  Sequence b = std::move(*a.clone());
  EXPECT_EQ(a.minimum_reusable_length(), 448u + 99);
  EXPECT_EQ(b.minimum_reusable_length(), a.minimum_reusable_length());
  EXPECT_EQ(b.signature(), a.signature());
  EXPECT_FALSE(b.truncate(500).ok());
  ASSERT_TRUE(b.truncate(547).ok());
  EXPECT_SAME_ROW(b, fresh(pool, kLayers, 0, 547));
}

TEST(SequenceShare, NoCloneInsideAStepOrARound) {
  PagePool pool(0);
  Sequence a = fresh(pool, kLayers, 0, 10);
  ASSERT_TRUE(a.reserve(1).ok());
  EXPECT_EQ(a.clone().error().code, ErrorCode::internal);
  ASSERT_TRUE(a.commit(0).ok());
  EXPECT_TRUE(a.clone().ok());
  ASSERT_TRUE(a.begin(2).ok());
  EXPECT_EQ(a.clone().error().code, ErrorCode::internal);
  ASSERT_TRUE(a.resolve(0).ok());
  EXPECT_TRUE(a.clone().ok());
}

TEST(SequenceShare, EveryFailedAllocationOfACloneLeavesNothing) {
  PagePool pool(0);
  Sequence a = fresh(pool, kLayers, 0, 150);
  const size_t held = pool.bytes_in_use();
  for (long n = 0;; ++n) {
    fail_allocation_after(n);
    auto clone = a.clone();
    fail_allocation_after(-1);
    if (clone.ok()) {
      EXPECT_GE(n, 7);
      break;
    }
    EXPECT_EQ(clone.error().code, ErrorCode::out_of_memory);
    EXPECT_EQ(pool.bytes_in_use(), held);
    EXPECT_EQ(a.projected_bytes(1), 0u);  // nobody shares
  }
}

TEST(SequenceShare, EveryFailedAllocationOfACopyLeavesBothRows) {
  for (long n = 0;; ++n) {
    PagePool pool(0);
    Sequence a = fresh(pool, kLayers, 0, 150);
    Sequence b = std::move(*a.clone());
    const size_t held = pool.bytes_in_use();
    fail_allocation_after(n);
    const Status status = b.reserve(100);
    fail_allocation_after(-1);
    if (status.ok()) {
      EXPECT_GE(n, 3);
      break;
    }
    EXPECT_EQ(pool.bytes_in_use(), held);
    EXPECT_EQ(b.bytes(), held);
    EXPECT_SAME_ROW(a, b);
    ASSERT_TRUE(step(b, 100, 3).ok());
    EXPECT_SAME_ROW(a, fresh(pool, kLayers, 0, 150));
  }
}

}  // namespace
}  // namespace gyre::kv::testing
