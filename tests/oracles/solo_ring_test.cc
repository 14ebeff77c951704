// The solo ring against its table, its trims, and plain masks.
#include "oracles/solo_ring.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "oracles/require.h"
#include "oracles/test_tokens.h"

namespace gyre::oracles {
namespace {

TEST(SoloRing, TableOfWindowFour) {
  struct Row {
    Tokens write;
    const char *fetched, *stored;
    int64_t index, offset;
  };
  const Row table[] = {
      {{1, 2, 3}, "1 2 3", "1 2 3", 3, 3},
      {{4}, "1 2 3 4", "1 2 3 4", 4, 4},
      {{5}, "5 2 3 4", "5 2 3 4", 1, 5},
      {{6}, "5 6 3 4", "5 6 3 4", 2, 6},
      {{7, 8, 9}, "4 5 6 7 8 9", "4 5 6 7 8 9", 6, 9},
      {{10}, "10 7 8 9", "10 7 8 9", 1, 10},
      {{11}, "10 11 8 9", "10 11 8 9", 2, 11},
  };
  SoloRing ring(4);
  for (const Row& row : table) {
    const AttentionRead read = ring.append(row.write);
    EXPECT_EQ(text(read.keys.row(0)), row.fetched);
    EXPECT_EQ(text(ring.stored()), row.stored);
    EXPECT_EQ(ring.index(), row.index);
    EXPECT_EQ(ring.offset(), row.offset);
  }
}

TEST(SoloRing, TemporalOrderOfEachState) {
  SoloRing ring(600);
  ring.append(run(1, 1));
  EXPECT_EQ(ring.stored().size(), 256u);  // grown by a quantum, 1 column live
  EXPECT_EQ(text(ring.temporal()), "1");
  SoloRing turned(4);
  turned.append(run(1, 4));
  EXPECT_EQ(text(turned.temporal()), "1 2 3 4");  // as stored
  turned.append({5});
  EXPECT_EQ(text(turned.temporal()), "2 3 4 5");  // tail, then head
  turned.append(run(6, 5));
  EXPECT_EQ(text(turned.temporal()), "3 4 5 6 7 8 9 10");  // oversized, as stored
}

TEST(SoloRing, GrowsByAQuantumUpToTheWindow) {
  SoloRing ring(300);
  for (int64_t t = 1; t <= 300; ++t) {
    ring.append({t});
    EXPECT_EQ(ring.stored().size(), t <= 256 ? 256u : 300u);
  }
  ring.append({301});
  EXPECT_EQ(ring.stored()[0], 301);
}

TEST(SoloRing, TrimsByCountersUntilItHasTurned) {
  SoloRing ring(4);
  ring.append(run(1, 3));
  EXPECT_TRUE(ring.is_trimmable());
  ring.trim(2);
  EXPECT_EQ(ring.offset(), 1);
  EXPECT_EQ(ring.index(), 1);
  const AttentionRead read = ring.append({12});
  EXPECT_EQ(text(read.keys.row(0)), "1 12");
  ring.trim(9);  // no more than there is
  EXPECT_EQ(ring.offset(), 0);
  ring.append(run(1, 4));
  EXPECT_FALSE(ring.is_trimmable());
  EXPECT_THROW(ring.trim(1), PreconditionError);
}

TEST(SoloRing, TheSpeculativeTrimCutsABlock) {
  SoloRing ring(4);
  ring.append(run(1, 6));
  ring.append(run(7, 5));
  EXPECT_EQ(text(ring.stored()), "4 5 6 7 8 9 10 11");
  ring.trim_block(3);
  EXPECT_EQ(text(ring.stored()), "4 5 6 7 8");
  EXPECT_EQ(ring.index(), 5);
  EXPECT_EQ(ring.offset(), 8);
  EXPECT_EQ(text(ring.append({9}).keys.row(0)), "9 6 7 8");
  EXPECT_THROW(ring.trim_block(1), PreconditionError);  // not after a single token
}

TEST(SoloRing, AFullRingThatLostItsWholeBlockGrowsByOne) {
  SoloRing ring(4);
  ring.append(run(1, 4));
  ring.append(run(5, 3));
  ring.trim_block(3);
  EXPECT_EQ(text(ring.stored()), "2 3 4");
  EXPECT_EQ(ring.offset(), 4);
  const AttentionRead read = ring.append({8});
  EXPECT_EQ(text(read.visible(0, 0)), "2 3 4 8");
  EXPECT_EQ(ring.index(), 4);
}

TEST(SoloRing, MasksByNameAndByArray) {
  SoloRing ring(4);
  EXPECT_EQ(ring.make_mask(1).kind, MaskKind::none);
  EXPECT_EQ(ring.make_mask(4).kind, MaskKind::causal);
  EXPECT_EQ(ring.make_mask(5).kind, MaskKind::array);
  EXPECT_EQ(ring.make_mask(3, 2).kind, MaskKind::array);
  ring.append(run(1, 9));
  const Mask mask = ring.make_mask(2);  // clamped to offset 3
  EXPECT_EQ(mask.text(0, 0), "11110");
  EXPECT_EQ(mask.text(0, 1), "01111");
}

TEST(SoloRing, EveryQuerySeesTheNewestWindow) {
  std::mt19937_64 random(1);
  int64_t queries = 0, turned = 0;
  for (int history = 0; history < 2000; ++history) {
    const auto window = static_cast<int64_t>(1 + random() % 9);
    SoloRing ring(window);
    Tokens tokens;
    for (int step = 0; step < 12; ++step) {
      const auto count = static_cast<int64_t>(random() % 2 == 0 ? 1 : 1 + random() % 5);
      const auto before = static_cast<int64_t>(tokens.size());
      for (int64_t i = 0; i < count; ++i) tokens.push_back(queries + i);
      const AttentionRead read = ring.append({tokens.begin() + before, tokens.end()});
      turned += before >= window && count == 1;
      for (int64_t i = 0; i < count; ++i, ++queries) {
        Tokens seen = read.visible(0, i);
        std::sort(seen.begin(), seen.end());
        ASSERT_EQ(seen, newest(tokens, before + i + 1, window)) << "history " << history;
      }
      if (count > 1 && random() % 3 == 0) {
        const auto back = static_cast<int64_t>(random() % static_cast<uint64_t>(count + 1));
        ring.trim_block(back);
        tokens.resize(tokens.size() - static_cast<size_t>(back));
      } else if (ring.is_trimmable() && random() % 8 == 0) {
        const auto back = static_cast<int64_t>(random() % 3);
        ring.trim(back);
        tokens.resize(tokens.size() - std::min(tokens.size(), static_cast<size_t>(back)));
      }
    }
  }
  EXPECT_GT(queries, 30'000);
  EXPECT_GT(turned, 3'000);
}

TEST(PlainMask, NamesAndArrays) {
  EXPECT_EQ(plain_mask(7, 1, 3).kind, MaskKind::none);
  EXPECT_EQ(plain_mask(0, 5, {}).kind, MaskKind::causal);
  EXPECT_EQ(plain_mask(0, 5, 5).kind, MaskKind::causal);
  EXPECT_EQ(plain_mask(0, 5, 4).text(0, 4), "01111");
  EXPECT_EQ(plain_mask(2, 2, {}).text(0, 0), "1110");
  EXPECT_EQ(plain_mask(2, 2, 2).text(0, 1), "0011");
  EXPECT_EQ(causal_mask(1, 2, 4).text(0, 0), "1110");  // the last query sees all
}

TEST(PlainMask, RowsOfOneLeftPaddedBuffer) {
  const Mask mask = padded_mask({0, 2}, 2, 5, {});
  EXPECT_EQ(mask.text(0, 0), "11110");
  EXPECT_EQ(mask.text(1, 0), "00110");
  EXPECT_EQ(mask.text(1, 1), "00111");
  EXPECT_EQ(padded_mask({0, 2}, 1, 5, 2).text(0, 0), "00011");
}

TEST(ReusablePrefix, OneTokenIsLeftAndTheFloorHolds) {
  EXPECT_EQ(reusable_prefix(10, 10, 20, true, 0), 9);
  EXPECT_EQ(reusable_prefix(10, 12, 10, false, 0), 10);  // in full: nothing to trim
  EXPECT_EQ(reusable_prefix(10, 12, 11, false, 0), 0);
  EXPECT_EQ(reusable_prefix(10, 12, 20, true, 10), 10);
  EXPECT_EQ(reusable_prefix(10, 12, 20, true, 11), 0);
  EXPECT_EQ(reusable_prefix(10, 12, 10, true, 11), 10);  // not trimmed below anything
  EXPECT_EQ(reusable_prefix(1, 1, 5, true, 0), 0);
}

}  // namespace
}  // namespace gyre::oracles
