// Rounds: whatever is kept, the row is one that only saw what was kept.
#include <gtest/gtest.h>

#include "base/memory.h"
#include "kv/sequence_fixture.h"

namespace gyre::kv::testing {
namespace {

// A round of `n` positions from `from` in steps of `chunk`, then keep; compares with a fresh row,
// and once more after going on.
void check_round(const std::vector<LayerSpec>& layers, uint32_t start, uint32_t from, uint32_t n,
                 uint32_t chunk, uint32_t keep) {
  SCOPED_TRACE("start " + std::to_string(start) + " from " + std::to_string(from) + " n " +
               std::to_string(n) + " chunk " + std::to_string(chunk) + " keep " +
               std::to_string(keep));
  PagePool pool(0);
  Sequence row = fresh(pool, layers, start, from);
  ASSERT_TRUE(row.can_begin(n - 1));
  const size_t before = pool.bytes_in_use(), projected = row.projected_bytes(n);
  ASSERT_TRUE(row.begin(n - 1).ok());
  EXPECT_EQ(pool.bytes_in_use(), before + projected);
  for (uint32_t done = 0; done < n; done += chunk)
    ASSERT_TRUE(step(row, std::min(chunk, n - done), done < keep ? 0 : 99).ok());
  EXPECT_EQ(pool.bytes_in_use(), before + projected);  // nothing is released in a round
  EXPECT_EQ(row.length(), from + n);
  ASSERT_TRUE(row.resolve(keep).ok());
  EXPECT_EQ(row.round(), Round::idle);
  Sequence expected = fresh(pool, layers, start, from + keep);
  EXPECT_SAME_ROW(row, expected);
  EXPECT_EQ(row.bytes(), expected.bytes());
  EXPECT_EQ(pool.bytes_in_use(), row.bytes() + expected.bytes());
  EXPECT_EQ(row.minimum_reusable_length(), expected.minimum_reusable_length());
  ASSERT_TRUE(step(row, 70, 4).ok());
  ASSERT_TRUE(step(expected, 70, 4).ok());
  EXPECT_SAME_ROW(row, expected);
}

TEST(SequenceRound, EveryKeepAcrossPagesAndWindows) {
  const std::vector<LayerSpec> layers = {full(),      sliding(1),   sliding(10),
                                         sliding(64), sliding(150), donor(2)};
  for (const uint32_t from : {0u, 1u, 58u, 63u, 64u, 127u, 250u}) {
    for (uint32_t keep = 0; keep <= 9; ++keep) {
      check_round(layers, 0, from, 9, 9, keep);
      check_round(layers, 0, from, 9, 4, keep);
      if (::testing::Test::HasFailure()) return;
    }
    for (const uint32_t keep : {0u, 1u, 63u, 64u, 65u, 128u, 200u})
      check_round(layers, 0, from, 200, 200, keep);
  }
}

TEST(SequenceRound, AStrictStateMachine) {
  PagePool pool(0);
  const std::vector<LayerSpec> layers = {full(), sliding(20)};
  Sequence row = fresh(pool, layers, 0, 30);
  EXPECT_EQ(row.round(), Round::idle);
  ASSERT_TRUE(row.begin(4).ok());
  EXPECT_EQ(row.round(), Round::open);
  EXPECT_FALSE(row.can_begin(1));
  EXPECT_EQ(row.truncate(10).error().code, ErrorCode::internal);
  EXPECT_EQ(row.reserve(6).error().code, ErrorCode::internal);  // more than was begun
  ASSERT_TRUE(step(row, 5).ok());
  EXPECT_EQ(row.begin(1).error().code, ErrorCode::internal);
  EXPECT_EQ(row.round(), Round::poisoned);
  for (const Status& status : {row.begin(1), row.resolve(1), row.reserve(1), row.commit(0),
                               row.truncate(3), row.convert(scalar_ops(), nullptr)}) {
    EXPECT_EQ(status.error().code, ErrorCode::internal);
    EXPECT_NE(status.error().text.find("poisoned"), std::string::npos);
  }
  EXPECT_FALSE(row.can_begin(0));
  EXPECT_EQ(row.clone().error().code, ErrorCode::internal);
  row.reset();
  EXPECT_EQ(row.round(), Round::idle);
  EXPECT_EQ(pool.bytes_in_use(), 0u);
  grow(row, 30);
  EXPECT_SAME_ROW(row, fresh(pool, layers, 0, 30));
  EXPECT_FALSE(row.resolve(0).ok());  // without begin
  EXPECT_EQ(row.round(), Round::poisoned);
  row.reset();
  ASSERT_TRUE(row.begin(3).ok());
  ASSERT_TRUE(step(row, 2).ok());
  EXPECT_FALSE(row.resolve(3).ok());  // more than was written
  EXPECT_EQ(row.round(), Round::poisoned);
}

TEST(SequenceRound, CanBeginKnowsContextAndBudget) {
  {
    PagePool pool(0);
    const std::vector<LayerSpec> layers = {full()};
    Sequence row = open(pool, layers, 0, 100);
    grow(row, 90);
    EXPECT_TRUE(row.can_begin(9));
    EXPECT_FALSE(row.can_begin(10));
    EXPECT_FALSE(row.can_begin(~0u));
    EXPECT_EQ(row.begin(10).error().code, ErrorCode::context_overflow);
    EXPECT_EQ(row.round(), Round::poisoned);
  }
  // Slabs of 2 MiB hold 64 pages of 32 KiB: 2 layers use them up after 32 pages each.
  PagePool pool(os::Pages::kStep);
  const std::vector<LayerSpec> layers = {full(kBf16Code, 1, 128), full(kBf16Code, 1, 128)};
  Sequence row = open(pool, layers), other = open(pool, layers);
  ASSERT_TRUE(other.reserve(64 * 28).ok());
  grow(row, 4 * 64 - 3);
  EXPECT_TRUE(row.can_begin(2));
  EXPECT_FALSE(row.can_begin(3));
  EXPECT_EQ(row.begin(3).error().code, ErrorCode::out_of_memory);
  EXPECT_EQ(row.round(), Round::poisoned);
  ASSERT_TRUE(other.commit(64 * 28).ok());  // the other row goes on
  other.reset();
  row.reset();
  EXPECT_TRUE(row.can_begin(64 * 32 - 1));
  EXPECT_FALSE(row.can_begin(64 * 32));
  EXPECT_TRUE(row.begin(64 * 32 - 1).ok());
}

TEST(SequenceRound, ARoundOnASharedTailLeavesTheOtherRow) {
  PagePool pool(0);
  const std::vector<LayerSpec> layers = {full(), sliding(70)};
  Sequence a = fresh(pool, layers, 0, 100);
  Sequence b = std::move(*a.clone());
  ASSERT_TRUE(b.begin(7).ok());
  ASSERT_TRUE(step(b, 8, 77).ok());
  ASSERT_TRUE(b.resolve(3).ok());
  EXPECT_SAME_ROW(a, fresh(pool, layers, 0, 100));
  Sequence expected = fresh(pool, layers, 0, 100);
  ASSERT_TRUE(step(expected, 3, 77).ok());
  EXPECT_SAME_ROW(b, expected);
}

// A step that fails half way, inside a round and outside, is taken back.
TEST(SequenceRound, AnAbandonedStepLeavesNoTrace) {
  PagePool pool(0);
  const std::vector<LayerSpec> layers = {full(), sliding(70)};
  Sequence row = fresh(pool, layers, 0, 100);
  const size_t held = pool.bytes_in_use();
  ASSERT_TRUE(row.reserve(60).ok());
  write_step(row, 100, 160, 66);
  ASSERT_TRUE(row.commit(0).ok());
  EXPECT_EQ(pool.bytes_in_use(), held);
  EXPECT_SAME_ROW(row, fresh(pool, layers, 0, 100));
  ASSERT_TRUE(row.begin(60).ok());
  ASSERT_TRUE(step(row, 2).ok());
  ASSERT_TRUE(row.reserve(40).ok());
  write_step(row, 102, 142, 66);
  ASSERT_TRUE(row.commit(0).ok());
  ASSERT_TRUE(row.resolve(1).ok());
  EXPECT_SAME_ROW(row, fresh(pool, layers, 0, 101));
}

TEST(SequenceRound, EveryFailedAllocationOfBeginPoisonsThisRowOnly) {
  for (long n = 0;; ++n) {
    PagePool pool(0);
    const std::vector<LayerSpec> layers = {full(), sliding(70)};
    Sequence a = fresh(pool, layers, 0, 100);
    Sequence b = std::move(*a.clone());
    const size_t held = pool.bytes_in_use();
    fail_allocation_after(n);
    const Status status = b.begin(100);
    fail_allocation_after(-1);
    if (status.ok()) {
      EXPECT_GE(n, 4);
      // resolve allocates nothing at all.
      ASSERT_TRUE(step(b, 101).ok());
      fail_allocation_after(0);
      const Status resolved = b.resolve(50);
      const bool untouched = allocation_must_fail();
      fail_allocation_after(-1);
      EXPECT_TRUE(resolved.ok());
      EXPECT_TRUE(untouched);
      break;
    }
    EXPECT_EQ(status.error().code, ErrorCode::out_of_memory);
    EXPECT_EQ(b.round(), Round::poisoned);
    EXPECT_EQ(pool.bytes_in_use(), held);
    EXPECT_SAME_ROW(a, fresh(pool, layers, 0, 100));
    b.reset();
    EXPECT_EQ(pool.bytes_in_use(), a.bytes());
    EXPECT_TRUE(a.begin(100).ok());
  }
}

}  // namespace
}  // namespace gyre::kv::testing
