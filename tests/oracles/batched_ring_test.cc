// Batched rings: the table of masks and writes, padded prefill, filtering, rollback.
#include "oracles/batched_ring.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "oracles/require.h"
#include "oracles/test_tokens.h"

namespace gyre::oracles {
namespace {

// Rows of the given tokens, laid out in temporal order and padded at the left to the longest.
BatchedRing ring_of(int64_t window, const std::vector<Tokens>& rows) {
  size_t width = 0;
  for (const Tokens& row : rows) width = std::max(width, row.size());
  RotatingPosition at;
  at.max_size = window;
  at.total_offset = at.ring_index = static_cast<int64_t>(width);
  std::vector<Tokens> columns;
  for (const Tokens& row : rows) {
    Tokens padded(width - row.size(), kNoToken);
    at.left_pad.push_back(static_cast<int64_t>(padded.size()));
    at.offsets.push_back(static_cast<int64_t>(row.size()));
    padded.insert(padded.end(), row.begin(), row.end());
    columns.push_back(std::move(padded));
  }
  return BatchedRing::adopt_physical(Columns(std::move(columns)), {}, at);
}

TEST(BatchedRing, TableOfWindowSix) {
  struct Row {
    const char *mask0, *mask1, *stored0, *stored1;
    Numbers left_pad;
    int64_t index, total;
    bool rotated;
    Numbers offsets;
  };
  const Row table[] = {
      {"11111", "00111", "1 2 3 4 5", "· · 11 12 13", {0, 2}, 5, 5, false, {5, 3}},
      {"111111", "001111", "1 2 3 4 5 6", "· · 11 12 13 14", {0, 2}, 6, 6, false, {6, 4}},
      {"111111", "101111", "7 2 3 4 5 6", "15 · 11 12 13 14", {-1, 1}, 1, 7, true, {7, 5}},
      {"111111", "111111", "7 8 3 4 5 6", "15 16 11 12 13 14", {-2, 0}, 2, 8, true, {8, 6}},
      {"111111", "111111", "7 8 9 4 5 6", "15 16 17 12 13 14", {-3, -1}, 3, 9, true, {9, 7}},
  };
  BatchedRing ring = ring_of(6, {run(1, 4), run(11, 2)});
  Token next = 5;
  for (const Row& row : table) {
    EXPECT_EQ(ring.make_mask(1).text(0, 0), row.mask0);
    const AttentionRead read = ring.append_decode({{next}, {next + 8}});
    ++next;
    EXPECT_EQ(read.mask.text(1, 0), row.mask1);
    // The table shows live columns; the ring has grown to its window at once.
    EXPECT_EQ(text(read.keys.row(0)), row.stored0);
    EXPECT_EQ(text(read.keys.row(1)), row.stored1);
    EXPECT_EQ(ring.position().left_pad, row.left_pad);
    EXPECT_EQ(ring.position().ring_index, row.index);
    EXPECT_EQ(ring.position().total_offset, row.total);
    EXPECT_EQ(ring.position().rotated, row.rotated);
    EXPECT_EQ(ring.position().offsets, row.offsets);
  }
}

TEST(BatchedRing, ABlockOnTheFreshRing) {
  BatchedRing ring = ring_of(6, {run(1, 4), run(11, 2)});
  const Mask mask = ring.make_mask(2);
  EXPECT_EQ(mask.text(0, 0), "111110");
  EXPECT_EQ(mask.text(0, 1), "111111");
  EXPECT_EQ(mask.text(1, 0), "001110");
  EXPECT_EQ(mask.text(1, 1), "001111");
  EXPECT_EQ(text(ring.append_window({{5, 6}, {13, 14}}).visible(1, 1)), "11 12 13 14");
}

// The case that the correction is for: rotated, and a row whose left padding is still positive.
TEST(BatchedRing, ABlockOnARotatedRingNeedsTheCorrection) {
  BatchedRing ring = ring_of(6, {run(1, 6), run(11, 1)});
  ring.append_decode({{7}, {12}});
  ASSERT_TRUE(ring.position().rotated);
  ASSERT_EQ(ring.position().left_pad, (Numbers{-1, 4}));
  const RotatingPosition before = ring.position();
  const AttentionRead read = ring.append_window({{8, 9}, {13, 14}});
  EXPECT_EQ(text(read.keys.row(1)), "· · · 11 12 13 14");
  EXPECT_EQ(text(read.visible(1, 0)), "11 12 13");
  EXPECT_EQ(text(read.visible(1, 1)), "11 12 13 14");
  const AttentionRead wrong{batched_mask(before, 2, 6, true, BlockRule::ancestor), read.keys};
  EXPECT_EQ(text(wrong.visible(1, 0)), "12 13");  // 11 is hidden
  EXPECT_EQ(wrong.mask.text(0, 0), read.mask.text(0, 0));
}

TEST(BatchedRing, APaddedPrefillKeepsEachRowsNewestWindow) {
  // Rows of 7, 3 and 5 new tokens in chunks of 3, 3 and 1 columns.
  const Numbers lengths = {7, 3, 5};
  BatchedRing ring = ring_of(4, {run(1, 2), run(101, 1), Tokens()});
  std::vector<Tokens> history = {run(1, 2), run(101, 1), Tokens()};
  ring.prepare_prefill(lengths);
  EXPECT_TRUE(ring.state().has_pending_padding());
  EXPECT_THROW(ring.append_decode({{1}, {1}, {1}}), PreconditionError);
  int64_t done = 0, checked = 0;
  for (const int64_t count : {3, 3, 1}) {
    std::vector<Tokens> block(3);
    for (size_t row = 0; row < 3; ++row) {
      for (int64_t i = done; i < done + count; ++i) {
        const bool real = i < lengths[row];
        block[row].push_back(real ? 1000 * static_cast<Token>(row + 1) + i : kNoToken);
        if (real) history[row].push_back(block[row].back());
      }
    }
    const AttentionRead read = ring.append_window(block);
    EXPECT_EQ(read.kernel, ReadKernel::masked_window);  // one column too
    for (size_t row = 0; row < 3; ++row) {
      for (int64_t i = done; i < std::min(done + count, lengths[row]); ++i, ++checked) {
        const int64_t old =
            static_cast<int64_t>(history[row].size()) - std::min(lengths[row], done + count);
        EXPECT_EQ(text(read.visible(row, i - done)), text(newest(history[row], old + i + 1, 4)));
      }
    }
    done += count;
  }
  EXPECT_EQ(checked, 15);
  EXPECT_EQ(ring.valid_offset(1), 4);
  EXPECT_GT(ring.position().offsets[1], 4);
  ring.finalize_prefill();
  EXPECT_EQ(ring.position().offsets, (Numbers{9, 4, 5}));
  EXPECT_FALSE(ring.state().has_pending_padding());
  // A block keeps the newest window - 1 tokens before each of its own: what the next query sees.
  for (size_t row = 0; row < 3; ++row)
    EXPECT_EQ(text(ring.extract_row(row, 3)->temporal()),
              text(newest(history[row], static_cast<int64_t>(history[row].size()), 3)));
  const AttentionRead read = ring.append_decode({{7}, {8}, {9}});
  for (size_t row = 0; row < 3; ++row) EXPECT_EQ(read.visible(row, 0).size(), 4u);
}

TEST(BatchedRing, EqualLengthsLeaveNothingPending) {
  BatchedRing ring = ring_of(4, {run(1, 2), run(11, 1)});
  ring.prepare_prefill({3, 3});
  EXPECT_FALSE(ring.state().has_pending_padding());
  EXPECT_THROW(ring.prepare_prefill({3}), PreconditionError);
}

TEST(BatchedRotatingState, LeftPaddingOnAnEmptyRingOnly) {
  BatchedRotatingState state(4, {0, 0});
  state.add_left_pad({0, 2});
  EXPECT_EQ(state.snapshot().offsets, (Numbers{0, -2}));
  EXPECT_EQ(state.snapshot().left_pad, (Numbers{0, 2}));
  state.write_block(0, 3);
  EXPECT_EQ(state.snapshot().offsets, (Numbers{3, 1}));
  EXPECT_EQ(state.active_length(), 3);
  EXPECT_THROW(state.add_left_pad({1, 1}), PreconditionError);
}

TEST(BatchedRotatingState, SnapshotRestoreAndFilter) {
  BatchedRotatingState state(4, {0, 2}, {4, 2});
  const RotatingPosition taken = state.snapshot();
  state.filter({1, 0, 1});
  EXPECT_EQ(state.batch_size(), 3u);
  EXPECT_EQ(state.snapshot().offsets, (Numbers{2, 4, 2}));
  EXPECT_EQ(state.snapshot().left_pad, (Numbers{2, 0, 2}));
  EXPECT_THROW(state.filter({3}), PreconditionError);
  state.restore(taken);
  EXPECT_EQ(state.snapshot(), taken);
  RotatingPosition bad = taken;
  bad.left_pad.pop_back();
  EXPECT_THROW(state.restore(bad), PreconditionError);
}

TEST(BatchedRing, TrimsUntilTheGroupFillsTheWindow) {
  BatchedRing ring = ring_of(4, {run(1, 3), run(11, 1)});
  ring.trim(1);
  EXPECT_EQ(ring.position().offsets, (Numbers{2, 0}));
  EXPECT_EQ(text(ring.append_decode({{3}, {12}}).visible(0, 0)), "1 2 3");
  ring.append_decode({{4}, {13}});
  EXPECT_FALSE(ring.is_trimmable());
  EXPECT_THROW(ring.trim(1), PreconditionError);
}

TEST(Rollback, EqualKeepsCutColumns) {
  BatchedRing ring = ring_of(4, {run(1, 4), run(11, 2)});
  ring.append_window({run(5, 3), run(13, 3)});
  ring = rollback_rotating_ring(ring, {4, 2}, {1});
  EXPECT_EQ(text(ring.columns().row(0)), "2 3 4 5");
  EXPECT_EQ(text(ring.columns().row(1)), "· 11 12 13");
  EXPECT_EQ(ring.position().offsets, (Numbers{5, 3}));
  EXPECT_EQ(ring.position().left_pad, (Numbers{-1, 1}));
  EXPECT_EQ(ring.position().total_offset, 5);
  EXPECT_EQ(ring.position().ring_index, 4);
}

TEST(Rollback, UnequalKeepsShiftRows) {
  BatchedRing ring = ring_of(4, {run(1, 4), run(11, 2), run(21, 3)});
  ring.append_window({run(5, 3), run(13, 3), run(24, 3)});
  ring = rollback_rotating_ring(ring, {4, 2, 3}, {0, 2, 1});
  EXPECT_EQ(text(ring.columns().row(0)), "· · 2 3 4");
  EXPECT_EQ(text(ring.columns().row(1)), "· 11 12 13 14");
  EXPECT_EQ(text(ring.columns().row(2)), "· 21 22 23 24");
  EXPECT_EQ(ring.position().offsets, (Numbers{4, 4, 4}));
  EXPECT_EQ(ring.position().left_pad, (Numbers{1, 1, 1}));
  const AttentionRead read = ring.append_decode({{5}, {15}, {25}});
  EXPECT_EQ(text(read.visible(0, 0)), "5 2 3 4");
  EXPECT_EQ(text(read.visible(1, 0)), "15 12 13 14");
  EXPECT_EQ(text(read.visible(2, 0)), "25 22 23 24");
}

TEST(Rollback, PreservedColumnsKeepRingsOfOneGroupAligned) {
  BatchedRing a = ring_of(4, {run(1, 4)}), b = ring_of(4, {run(11, 4)});
  a.append_window({run(5, 3)});
  b.append_window({run(15, 3)});
  a = rollback_rotating_ring(a, {4}, {0}, true);
  b = rollback_rotating_ring(b, {4}, {2}, true);
  EXPECT_EQ(text(a.columns().row(0)), "· · · 2 3 4");
  EXPECT_EQ(text(b.columns().row(0)), "· 12 13 14 15 16");
  EXPECT_EQ(a.position().total_offset, b.position().total_offset);
  EXPECT_EQ(a.position().ring_index, b.position().ring_index);
  EXPECT_EQ(text(a.append_decode({{5}}).visible(0, 0)), "5 2 3 4");
  EXPECT_EQ(text(b.append_decode({{17}}).visible(0, 0)), "17 14 15 16");
}

TEST(Rollback, WritesInPlaceGiveBackOneTokenOnly) {
  BatchedRing ring = ring_of(4, {run(1, 4)});
  ring.append_decode({{5}});
  ring.append_decode({{6}});
  EXPECT_THROW(rollback_rotating_ring(ring, {4}, {0}), PreconditionError);
  EXPECT_THROW(rollback_rotating_ring(ring, {4}, {3}), PreconditionError);
  BatchedRing kept = rollback_rotating_ring(ring, {4}, {2});
  EXPECT_EQ(kept.columns(), ring.columns());
  EXPECT_EQ(kept.position(), ring.position());
  for (const bool preserve : {false, true}) {
    BatchedRing back = rollback_rotating_ring(ring, {4}, {1}, preserve);
    EXPECT_EQ(back.position().rotated, preserve);
    Tokens seen = back.append_decode({{60}}).visible(0, 0);
    std::sort(seen.begin(), seen.end());
    EXPECT_EQ(text(seen), "3 4 5 60");
  }
}

TEST(Rollback, TwoBlocksOfOneRoundHaveForgottenTooMuch) {
  BatchedRing ring = ring_of(4, {run(1, 4)});
  ring.append_window({run(5, 3)});
  ring.append_window({run(8, 2)});
  EXPECT_THROW(rollback_rotating_ring(ring, {4}, {0}), PreconditionError);
  EXPECT_EQ(text(rollback_rotating_ring(ring, {4}, {3}).columns().row(0)), "5 6 7");
}

TEST(Rollback, NothingKeptOfABlockOnAFullRing) {
  BatchedRing ring = ring_of(4, {run(1, 4)});
  ring.append_window({run(5, 3)});
  ring = rollback_rotating_ring(ring, {4}, {0});
  EXPECT_EQ(text(ring.columns().row(0)), "2 3 4");
  EXPECT_EQ(text(ring.append_decode({{5}}).visible(0, 0)), "2 3 4 5");
  EXPECT_EQ(text(ring.columns().row(0)), "2 3 4 5");
}

TEST(Rollback, AWindowOfOneTokenMayLoseItsOnlyColumn) {
  BatchedRing ring = ring_of(1, {{1}});
  ring.append_window({run(2, 2)});
  ring = rollback_rotating_ring(ring, {1}, {0});
  EXPECT_EQ(ring.columns().count(), 0);
  EXPECT_EQ(ring.extract_row(0)->offset(), 1);
  EXPECT_EQ(text(ring.append_decode({{9}}).visible(0, 0)), "9");
}

TEST(BatchedRing, ConversionChangesTheKindAlone) {
  BatchedRing ring = ring_of(4, {run(1, 4), run(11, 2)});
  ring.append_decode({{5}, {13}});
  const BatchedRing converted = ring.to_quantized(64, 4);
  EXPECT_EQ(converted.columns(), ring.columns());
  EXPECT_EQ(converted.position(), ring.position());
  EXPECT_EQ(converted.kind(), quantized_kind(4, 64));
  EXPECT_THROW(converted.to_quantized(64, 4), PreconditionError);
  EXPECT_THROW(ring_of(4, {Tokens()}).to_quantized(64, 4), PreconditionError);
}

}  // namespace
}  // namespace gyre::oracles
